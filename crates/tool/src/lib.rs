//! The contract of sinew: the types and traits that all other crates share.
//!
//! A [`Tool`] decodes a [`Request`] into a [`Prepared`] call with [`Claim`]s, which runs on a [`World`] and
//! returns a [`Reply`]. [`Facts`] describe a tool without its name. This crate opens no file, starts no
//! process and reads no clock: the guard grants that authority as a `World`.

#![deny(missing_docs)]

pub mod agents;
mod analysis;
mod approval;
mod background;
mod caller;
mod cancel;
mod checkpoint;
mod claim;
mod content_hash;
mod dialect;
mod error;
mod facts;
mod file_error;
mod future;
pub mod hook;
mod host;
mod knowledge;
mod ledger;
mod line;
mod memo;
mod messages;
mod midway;
mod name;
mod needs;
mod net;
mod operation;
mod param;
mod process;
mod progress;
mod reply;
mod request;
mod row;
mod ruling;
mod search;
mod settings;
mod skills;
mod slot;
pub mod sync;
mod tool_index;
mod tools;
pub mod visible;
mod word_enum;
mod world;

pub use agents::{AgentReport, AgentSpawner, AgentTask, NoAgents, SpawnLimit, TemplateInfo};
pub use analysis::{Analysis, CommandList, LazyCommandList, Piece, Plain, Segment, Unclear};
pub use approval::{Answer, Approver, Cover, Filled, Form, Question, Scope, UndoCover};
pub use background::{Background, Key, Matcher, News, Screen, Size, Typed, Wait, Waited};
pub use caller::Caller;
pub use cancel::{Cancel, CancelWait};
pub use checkpoint::{
    CheckpointInfo, CheckpointQuery, Checkpoints, LeftPath, NoCheckpoints, PathChange, Restore,
    RestoreAct, RestoreChoice, RestoreConflict, RestorePlan, RestoreStep, Was,
};
pub use claim::{Access, Claim, FileState, FileTarget, Links, MemoryScope, Position, Targets};
pub use content_hash::ContentHash;
pub use dialect::{Conventions, CutText, Dialect, ForeignNames, Outputs};
pub use error::{Kind, ToolError};
pub use facts::{Cost, Effects, Facts};
pub use file_error::FileError;
pub use future::BoxFuture;
pub use hook::{
    AfterCompaction, AfterModelCall, AgentEnd, AgentEvent, AgentStart, Approval, BeforeCompaction,
    BeforeModelCall, BeforePrompt, Decision, Executed, FormEvent, Hook, HookAnswer, HookEnd,
    HookEvent, HookForm, HookReply, MessageReceived, MessageSending, MessageSent, NamedPaths,
    SINEW_HOOKS, SessionEnd, SessionStart, ToolCall, TurnEnd, TurnStart,
};
pub use host::Host;
pub use knowledge::{Knowledge, NoKnowledge, ReadObservation, Writer};
pub use ledger::{Closing, Event, Ledger, Opening, Recorder, Ticket};
pub use line::line_name;
pub use memo::Memo;
pub use messages::{
    AGENT, ChannelKind, ChannelMessage, Inbox, InboxMessage, MessageClaim, MessageTarget, Messages,
    NoMessages, Receiver, ReceiverClaim, SentMessage, UncertainMessage, no_messages,
};
pub use midway::{
    AsksMidway, MidwayAnswer, OpensOutside, OutsideAnswer, OutsideFile, OutsideOpen, UnkeptChange,
};
pub use name::{name_matches, tool_matches, wire_name};
pub use needs::{ExtraAccess, ExtraPath, Need, Needs};
pub use net::{
    Net, NoNet, PageForm, ReadPage, UrlClaim, UrlTarget, WebRequest, WebResponse, shown_url,
};
pub use operation::{Context, Operation, Preview};
pub use param::{Param, ParamKind, Preset, Scale};
pub use process::{
    Command, CommandChanges, CommandLine, CommandTarget, Contained, Exit, Finished,
    MAX_STORED_OUTPUT, Moved, NoProcesses, Output, Processes, RUNS_LATER, Refused, RunOptions,
    SandboxFindings, Shell, Used, WentBack,
};
pub use progress::Progress;
pub use reply::{Block, ErrorBody, Meta, More, Reply, Resource, Skipped, file_uri};
pub use request::{Arguments, Request, call_id};
pub use row::{Bound, Row, Shaping};
pub use ruling::{Ruled, Ruling, Verdict};
pub use search::{
    ApiKey, ProviderChoice, SearchAnswer, SearchClaim, SearchProvider, SearchQuery, SearchResult,
    SearchSettings, SearchTarget,
};
pub use settings::{BinaryPolicy, FileSettings, HardLinks, OutsidePaths, Sync};
pub use skills::{LoadedSkill, NoSkills, SkillCaller, SkillIndex, SkillInfo, SkillRequest};
pub use slot::Slot;
pub use tool_index::{FoundTool, FoundTools, NoTools, ToolIndex, ToolSearcher};
pub use tools::{Prepared, Ran, Tool, ToolOrigin, function_call};
pub use visible::{shown, shown_line, shown_path, visible_only};
pub use world::{
    Becomes, Change, Clock, CommitError, Entry, Expect, FileKind, FileMeta, FileMode, FileOp,
    Files, Flow, Identity, Info, Listed, Listing, Opened, Seen, Stamp, Visitor, Visitors,
    WalkOptions, WalkReport, World, Written,
};
