import FuzzKit
import MQTTCodec

/// The first byte says the version, who sends, and what the rest is: packets, or a text.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafeRawPointer, _ count: Int) -> CInt {
    var script = ByteScript(UnsafeRawBufferPointer(start: start, count: count))
    let choice = script.byte()
    let version: ProtocolVersion = [.v31, .v311, .v5, .v5][Int(choice & 3)]
    let bytes = script.remainder()
    if choice & 8 != 0 {
        checkText(bytes)
    } else {
        checkStream(bytes, version, from: choice & 4 == 0 ? .client : .server)
    }
    return 0
}
