import FuzzKit
import Transports

/// The first byte says what the rest is: an opening, frames from a client behind one, frames from a server, or what a
/// server is to send.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafeRawPointer, _ count: Int) -> CInt {
    var script = ByteScript(UnsafeRawBufferPointer(start: start, count: count))
    let choice = script.byte()
    let pieces = script.bytes(4)
    let bytes = script.remainder()
    switch choice & 3 {
    case 0: Listening.check(bytes, pieces, opened: false)
    case 1: Listening.check(bytes, pieces, opened: true)
    case 2: Dialling.check(bytes, pieces)
    default: Sending.check(bytes, pieces)
    }
    return 0
}
