import FuzzKit

@testable import Transports

/// The first byte says the version and what is demanded, the next ones how the rest comes in pieces.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafeRawPointer, _ count: Int) -> CInt {
    var script = ByteScript(UnsafeRawBufferPointer(start: start, count: count))
    let choice = script.byte()
    let lengths = script.bytes(3)
    let bytes = script.remainder()
    let settings = ProxyProtocolSettings(
        version: choice & 1 == 0 ? .v1 : .v2, requiresTLS: choice & 2 != 0, requiresCertificate: choice & 4 != 0)
    let (whole, cut) = (FilterDriver(ProxyFilter(settings)), FilterDriver(ProxyFilter(settings)))
    whole.receive(bytes)
    var rest = bytes[...]
    var index = 0
    while !rest.isEmpty {
        let length = lengths.isEmpty ? 1 : 1 + Int(lengths[index % lengths.count])
        cut.receive(rest.prefix(length))
        rest = rest.dropFirst(length)
        index += 1
    }
    // A piece may show what is wrong before the whole does, so only whether it is wrong has to be the same.
    expect((whole.refusal == nil) == (cut.refusal == nil), "in pieces \(cut.refusal ?? "fine"), else \(whole.refusal ?? "fine")")
    expect(whole.filter.isOpen == cut.filter.isOpen, "in pieces it is open \(cut.filter.isOpen)")
    if whole.filter.isOpen {
        expect(whole.decoded == cut.decoded, "in pieces it is \(cut.decoded), else \(whole.decoded)")
        expect(bytes.suffix(whole.decoded.count).elementsEqual(whole.decoded), "what follows the header is \(whole.decoded)")
        expect(identity(of: whole) == identity(of: cut), "in pieces it is somebody else")
    }
    return 0
}

private func identity(of driver: FilterDriver) -> String {
    var identity = PeerIdentity()
    driver.filter.describe(&identity)
    return "\(identity)"
}
