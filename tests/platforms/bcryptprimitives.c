/* What Rust's standard library takes from this file of Windows. Wine before version 9 lacks it. */
#include <windows.h>
#include <ntsecapi.h>

BOOL WINAPI ProcessPrng(BYTE *data, SIZE_T length) {
    return RtlGenRandom(data, (ULONG)length);
}
