//! Each line with `^` is below what an error points at, and begins that error's message.

#![cfg(test)]

mod arguments;
mod bodies;
mod functions;
