import BrokerModel
import FuzzKit
import HTTP
import MQTTCodec

@testable import JSONWebTokens
@testable import LoginServices

/// The first byte says what the rest is: the bytes of a service's answer, which are read at once and in pieces, or the
/// JSON of one.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafeRawPointer, _ count: Int) -> CInt {
    var script = ByteScript(UnsafeRawBufferPointer(start: start, count: count))
    let choice = script.byte()
    let size = max(1, Int(script.byte()))
    let bytes = script.remainder()
    if choice & 1 == 0 { checkAnswer(bytes, inPiecesOf: size, isToHead: choice & 2 != 0) } else { checkGrant(bytes) }
    return 0
}

private let bodyBytesMax = 300

/// What a reader makes of bytes: the whole answer, nothing yet, or words.
private func outcome(of bytes: [UInt8], inPiecesOf size: Int, isToHead: Bool) -> (
    status: Int?, body: [UInt8], isEnded: Bool, words: String?
) {
    var reader = HTTPResponseReader(to: isToHead ? .head : .get, bodyBytesMax: bodyBytesMax)
    var (status, body): (Int?, [UInt8]) = (nil, [])
    do throws(HTTPResponseError) {
        var rest = bytes[...]
        repeat {
            reader.append(rest.prefix(size))
            rest = rest.dropFirst(size)
            reading: while true {
                switch try reader.next() {
                case .needsMore: break reading
                case .head(let head): status = head.status.rawValue
                case .body(let piece): body += piece
                case .end: return (status, body, true, nil)
                }
            }
        } while !rest.isEmpty
        try reader.finish()
        return (status, body, true, nil)
    } catch {
        return (status, body, false, error.description)
    }
}

private func checkAnswer(_ bytes: [UInt8], inPiecesOf size: Int, isToHead: Bool) {
    let whole = outcome(of: bytes, inPiecesOf: max(1, bytes.count), isToHead: isToHead)
    let cut = outcome(of: bytes, inPiecesOf: size, isToHead: isToHead)
    expect(whole.isEnded == cut.isEnded, "in pieces \(cut), else \(whole)")
    expect(whole.body.count <= bodyBytesMax && cut.body.count <= bodyBytesMax, "\(whole.body.count) bytes of a body")
    if whole.isEnded { expect(whole.status == cut.status && whole.body == cut.body, "in pieces \(cut), else \(whole)") }
    if let words = whole.words { expect(!words.isEmpty, "no words") }
}

private func checkGrant(_ bytes: [UInt8]) {
    do throws(GrantedAnswerError) {
        let answer = try GrantedAnswer(bytes)
        expect((answer.access?.rules ?? []).count <= 1024 && answer.attributes.count <= 100, "more than there may be")
        let grant = try answer.grant(source: "http", for: LoginClient("u", "c", address: "192.0.2.7"))
        expect((grant.rights == nil) == (answer.access == nil) && grant.isSuperuser == answer.isSuperuser, "another grant")
    } catch {
        expect(!error.description.isEmpty, "no words")
    }
}
