// Runs the WebAssembly program that the command line names.
import { readFile } from 'node:fs/promises';
import { WASI } from 'node:wasi';

const wasi = new WASI({ version: 'preview1', args: process.argv.slice(2) });
// An older C library lacks the functions of threads, which in newer ones return ENOTSUP.
const env = new Proxy({}, { get: () => () => 58 });
const module = await WebAssembly.compile(await readFile(process.argv[2]));
process.exitCode = wasi.start(await WebAssembly.instantiate(module, { ...wasi.getImportObject(), env }));
