import FuzzKit
import HTTP

/// The first byte says what the rest is: a connection's bytes, which are read at once and in pieces, or the values of
/// fields.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafeRawPointer, _ count: Int) -> CInt {
    var script = ByteScript(UnsafeRawBufferPointer(start: start, count: count))
    let choice = script.byte()
    let pieces = script.bytes(4)
    let bytes = script.remainder()
    if choice & 1 == 0 { Connection.check(bytes, pieces) } else { Values.check(bytes) }
    return 0
}

/// A server's side of a connection, against a peer that may be anybody.
enum Connection {
    static let bodyBytesMax = 300

    static func check(_ bytes: [UInt8], _ pieces: [UInt8]) {
        let whole = outcome(of: [bytes[...]])
        let cut = outcome(of: cuts(of: bytes, pieces))
        expect(whole.requests == cut.requests, "in pieces it is \(cut.requests), else \(whole.requests)")
        // A head that is too long is told as soon as that is known, which may be before what else is wrong with it has
        // come.
        expect(
            (whole.refusal == nil) == (cut.refusal == nil),
            "in pieces \(String(describing: cut.refusal)), else \(String(describing: whole.refusal))")
        for request in whole.requests { check(request) }
        guard let refusal = whole.refusal else { return }
        expect(refusal.status.rawValue >= 400 && !refusal.status.reason.isEmpty, "refused with \(refusal.status)")
        let answer = refusal.response.wholeBytes
        expect(
            HTTPResponseHead(answer.prefix(answer.count - (refusal.explanation.utf8.count + 1)))?.status == refusal.status,
            "no answer")
    }

    private static func outcome(of pieces: [ArraySlice<UInt8>]) -> (requests: [HTTPRequest], refusal: HTTPRefusal?) {
        var reader = HTTPRequestReader(bodyBytesMax: bodyBytesMax)
        var requests: [HTTPRequest] = []
        for piece in pieces {
            reader.append(piece)
            reading: while true {
                switch reader.next() {
                case .needsMore, .expectsContinue: break reading
                case .request(let request): requests.append(request)
                case .refused(let refusal):
                    expect(reader.phase == .refused && reader.next() == .needsMore, "it goes on after a refusal")
                    return (requests, refusal)
                }
            }
            expect(reader.waitingByteCount <= Limits.headBytesMax + 2, "\(reader.waitingByteCount) bytes wait")
        }
        return (requests, nil)
    }

    /// What a request that was taken promises.
    private static func check(_ request: HTTPRequest) {
        expect(request.body.count <= bodyBytesMax, "a body of \(request.body.count) bytes")
        expect(request.declaresBody || request.body.isEmpty, "a body that was not declared")
        expect(request.version == .http10 || !request.host.isEmpty, "no host")
        expect(
            request.fields.count(of: "Host") <= 1 && request.fields.all.count <= Limits.fieldCountMax, "fields \(request.fields)")
        expect(request.segments.allSatisfy { !$0.utf8.contains(0) }, "a NUL in \(request.segments)")
        for field in request.fields.all {
            expect(field.value.utf8.allSatisfy { $0 >= 0x20 || $0 == 0x09 }, "the field \(field)")
            expect(request.fields[field.name] != nil, "no field \(field.name)")
        }
        let path = request.segments.map { PercentCoding.encode($0) }.joined(separator: "/")
        expect(
            request.path == "*" || HTTPTarget("/\(path)".utf8)?.segments == request.segments,
            "\(request.segments) does not come back")
        _ = (request.cookies, request.basicCredentials, request.bearerToken, request.endsConnection)
    }
}

/// What the values of fields say, whatever they hold.
enum Values {
    static func check(_ bytes: [UInt8]) {
        let text = String(decoding: bytes, as: UTF8.self)
        expect(
            PercentCoding.decode(PercentCoding.encode(text).utf8) == (text.utf8.contains(0) ? nil : text),
            "\(text) does not come back")
        _ = PercentCoding.decode(bytes, plusIsBlank: true)
        let field = HTTPField("Cookie", text)
        expect(field.value.utf8.allSatisfy { ($0 >= 0x20 && $0 != 0x7F) || $0 == 0x09 }, "the value \(field.value)")
        for member in HTTPPreference(text).members { expect((0...1000).contains(member.weight), "the weight \(member.weight)") }
        _ = EntityTag("a").isNamed(in: text)
        if let seconds = HTTPDate.parse(text) { expect(HTTPDate.parse(HTTPDate.text(seconds)) == seconds, "the time \(text)") }
        let event = ServerSentEvent(id: text, event: text, data: text).bytes
        let lines = event.split(separator: 0x0A, omittingEmptySubsequences: false)
        expect(event.suffix(2) == [0x0A, 0x0A] && !event.contains(0x0D), "an event does not end")
        expect(lines.dropLast(2).allSatisfy { !$0.isEmpty }, "an event ends before its time")
        if let request = HTTPRequest(.get, text, fields: ["Cookie": text, "Authorization": text]) {
            _ = (request.cookies, request.basicCredentials, request.bearerToken)
        }
        if let head = HTTPResponseHead(bytes) { expect(head.fields.all.count <= Limits.fieldCountMax, "fields") }
    }
}

/// The pieces of bytes, as long as `lengths` say in turn.
private func cuts(of bytes: [UInt8], _ lengths: [UInt8]) -> [ArraySlice<UInt8>] {
    var rest = bytes[...]
    var pieces: [ArraySlice<UInt8>] = []
    while !rest.isEmpty {
        let length = lengths.isEmpty ? 1 : 1 + Int(lengths[pieces.count % lengths.count])
        pieces.append(rest.prefix(length))
        rest = rest.dropFirst(length)
    }
    return pieces
}
