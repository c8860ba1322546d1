//! The way of a call, on real roots, with tools made for the test.

mod asking;
mod deeds;
mod way;
