//! Wrong arguments of the attribute.

#[hairspring::test(worker = 2)]
//                 ^^^^^^ there is no argument `worker`; allowed: `workers`, `limit`, `patience`, `grace`, `seed`, `crate`
async fn unknown() {}

#[hairspring::test(flavor = "multi_thread", worker_threads = 2)]
//                 ^^^^^^ there is no argument `flavor`; a number of `workers` makes the runtime multi-threaded; allowed
//                                          ^^^^^^^^^^^^^^ there is no argument `worker_threads`; a number of `workers`
async fn of_tokio() {}

#[hairspring::test(start_paused = true)]
//                 ^^^^^^^^^^^^ there is no argument `start_paused`; the clock is always paused; allowed
async fn paused() {}

#[hairspring::test("5s")]
//                 ^^^^ expected an argument, as in `workers = 2`; allowed: `workers`
async fn not_named() {}

#[hairspring::test(workers = 2, seed = 1, workers = 2)]
//                                        ^^^^^^^ `workers` is set twice
async fn twice() {}

#[hairspring::test(workers)]
//                 ^^^^^^^ `workers` has no value: after a `=`, write a whole number from 1 on
async fn no_value() {}

#[hairspring::test(limit("5s"), seed(7))]
//                 ^^^^^ `limit` has no value: after a `=`, write a number of seconds
//                              ^^^^ `seed` has no value: after a `=`, write a whole number from 0
async fn in_brackets() {}

#[hairspring::test(workers = , seed =)]
//                           ^ expected an expression
//                             ^^^^ `seed` has no value: after a `=`, write a whole number from 0
async fn nothing() {}

#[hairspring::test(workers = 2 seed = 1)]
//                             ^^^^ expected `,`
async fn no_comma() {}

#[hairspring::test(workers = 0)]
//                           ^ `workers` is a whole number from 1 on
async fn no_workers() {}

#[hairspring::test(workers = "2", seed = -1)]
//                           ^^^ `workers` is a whole number from 1 on
//                                       ^^ `seed` is a whole number from 0 to 18446744073709551615
async fn wrong_types() {}

#[hairspring::test(workers = WORKERS, seed = 18446744073709551616)]
//                           ^^^^^^^ `workers` is a whole number from 1 on
//                                           ^^^^^^^^^^^^^^^^^^^^ `seed` is a whole number from 0
async fn no_literal_and_too_large() {}

#[hairspring::test(limit = "5 hours", patience = "1.5ns", grace = 5s)]
//                         ^^^^^^^^^ `limit` is a number of seconds, such as 0.5, or a string with a unit, such as "500ms"; the
//                                               ^^^^^^^ `patience` is a number of seconds
//                                                                ^^ `grace` is a number of seconds
async fn no_durations() {}

#[hairspring::test(limit = true, grace = -0.5)]
//                         ^^^^ `limit` is a number of seconds
//                                       ^^^^ `grace` is a number of seconds
async fn wrong_types_of_durations() {}

#[hairspring::test(crate = timers)]
//                         ^^^^^^ `crate` is a path in a string, as in "my::hairspring"
async fn crate_without_quotes() {}

#[hairspring::test(crate = "no path")]
//                         ^^^^^^^^^ `crate` is a path in a string, as in "my::hairspring"
async fn crate_with_a_space() {}
