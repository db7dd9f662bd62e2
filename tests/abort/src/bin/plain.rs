fn main() {
    abort::main();
}
