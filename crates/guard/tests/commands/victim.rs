//! A program that is killed without warning while its commands run: nothing of them is left.

use std::io::{BufRead, BufReader};
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use libtest_mimic::{Failed, Trial};
use sinew_guard::{Helper, SandboxLevel};

use crate::hazards::{number, sleepers};
use crate::world::{Place, beside_others, works};

/// What makes this program the victim: the sandbox level and the number of the case.
const VICTIM: &str = "SINEW_TEST_VICTIM";
/// How many commands run when it is killed.
const N_COMMANDS: usize = 20;

/// Plays the victim where this process is one: its commands run until another process kills it.
pub(crate) fn play(helper: &Helper) -> Option<ExitCode> {
    let case = std::env::var(VICTIM).ok()?;
    let (level, number) = case.split_once(' ')?;
    let place = Place::new(helper, SandboxLevel::from_word(level)?);
    let text = format!("setsid sleep 9{number} & (setsid sleep 9{number} &); sleep 9{number}");
    thread::scope(|scope| {
        for _ in 0..N_COMMANDS {
            scope.spawn(|| place.run(&text, Duration::from_secs(60)));
        }
        println!("begun");
    });
    Some(ExitCode::SUCCESS)
}

pub(crate) fn trials(helper: &Helper) -> Vec<Trial> {
    let of = |level: SandboxLevel| {
        let helper = helper.clone();
        Trial::test(format!("victim: killed on {level}"), move || {
            if works(&helper, level) { killed(level) } else { Ok(()) }
        })
    };
    SandboxLevel::ALL.into_iter().map(of).collect()
}

fn killed(level: SandboxLevel) -> Result<(), Failed> {
    let _turn = beside_others();
    let number = number();
    let mut victim = Command::new(std::env::current_exe()?)
        .env(VICTIM, format!("{level} {number}"))
        .stdout(Stdio::piped())
        .spawn()?;
    let mut line = String::new();
    BufReader::new(victim.stdout.take().ok_or("a pipe")?).read_line(&mut line)?;
    let wanted = 3 * N_COMMANDS;
    let until = Instant::now() + Duration::from_secs(20);
    let mut n_running = 0;
    while n_running < wanted && Instant::now() < until {
        thread::sleep(Duration::from_millis(20));
        n_running = sleepers(&number).len();
    }
    victim.kill()?;
    victim.wait()?;
    let killed = Instant::now();
    while !sleepers(&number).is_empty() && killed.elapsed() < Duration::from_secs(3) {
        thread::sleep(Duration::from_millis(5));
    }
    let left = sleepers(&number);
    println!("{n_running} processes on {level} were gone after {:?}", killed.elapsed());
    if n_running < wanted {
        return Err(format!("only {n_running} of {wanted} processes began").into());
    }
    if left.is_empty() { Ok(()) } else { Err(format!("left behind: {left:?}").into()) }
}
