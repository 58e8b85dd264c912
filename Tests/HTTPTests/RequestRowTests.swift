import Glibc
import HTTP
import Testing

/// Every row of the conformance table, read at once and byte by byte. The same rows are sent to a broker over a real
/// connection.
@Suite struct RequestRowTests {
    struct Row: CustomTestStringConvertible {
        let line: Int
        let request: String
        let expected: String
        var testDescription: String { "row \(line)" }
    }

    static let rows: [Row] = {
        let path = #filePath.replacing("HTTPTests/RequestRowTests.swift", with: "Integration/administration/requests.txt")
        guard let file = fopen(path, "r") else { return [] }
        defer { fclose(file) }
        var text: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = fread(&chunk, 1, chunk.count, file)
            if count == 0 { break }
            text += chunk[..<count]
        }
        let lines = String(decoding: text, as: UTF8.self).split(separator: "\n", omittingEmptySubsequences: false)
        return lines.enumerated().compactMap { number, line in
            guard line.first != "#", let arrow = line.firstRange(of: " => ") else { return nil }
            return Row(line: number + 1, request: String(line[..<arrow.lowerBound]), expected: String(line[arrow.upperBound...]))
        }
    }()

    @Test func `there are enough rows`() { #expect(Self.rows.count > 200) }

    @Test(arguments: rows) func `a request is taken or refused as the table says`(row: Row) throws {
        let bytes = try #require(RowText.bytes(row.request))
        let whole = Self.outcome(of: [bytes[...]])
        #expect(whole == RowText.withoutStatusOfTaken(row.expected))
        if bytes.count < 4000 { #expect(whole == Self.outcome(of: bytes.indices.map { bytes[$0...$0] }), "byte by byte") }
    }

    /// What a reader makes of a connection's bytes.
    static func outcome(of pieces: [ArraySlice<UInt8>]) -> String {
        var reader = HTTPRequestReader(bodyBytesMax: 1 << 20)
        var words: [String] = []
        for piece in pieces {
            reader.append(piece)
            reading: while true {
                switch reader.next() {
                case .needsMore, .expectsContinue: break reading
                case .request(let request):
                    words.append(RowText.of(request))
                    if request.endsConnection { return words.joined(separator: " ; ") }
                case .refused(let refusal):
                    return (words + ["\(refusal.status.rawValue) ! \(refusal.explanation)"]).joined(separator: " ; ")
                }
            }
        }
        switch reader.phase {
        case .idle: break
        case .head: words.append("(head)")
        case .body: words.append("(body)")
        case .refused: break
        }
        return words.joined(separator: " ; ")
    }
}

enum RowText {
    /// A request as the table writes it: escapes, and `[…]*N` for so many times.
    static func bytes(_ text: String) -> [UInt8]? {
        var bytes: [UInt8] = []
        var rest = text[...]
        var start: Int?
        while let character = rest.popFirst() {
            switch character {
            case "\\":
                switch rest.popFirst() {
                case "r": bytes.append(0x0D)
                case "n": bytes.append(0x0A)
                case "t": bytes.append(0x09)
                case "\\": bytes.append(0x5C)
                case "x":
                    guard let byte = UInt8(rest.prefix(2), radix: 16) else { return nil }
                    bytes.append(byte)
                    rest = rest.dropFirst(2)
                default: return nil
                }
            case "[" where rest.contains("]*"): start = bytes.count
            case "]" where start != nil && rest.first == "*":
                let digits = rest.dropFirst().prefix { $0.isNumber }
                guard let first = start, let count = Int(digits) else { return nil }
                let unit = bytes[first...]
                bytes = bytes[..<first] + Array(repeatElement(unit, count: count).joined())
                start = nil
                rest = rest.dropFirst(1 + digits.count)
            default: bytes += Array(String(character).utf8)
            }
        }
        return bytes
    }

    /// `POST /a%2Fb ?q=1 @host "body" close`.
    static func of(_ request: HTTPRequest) -> String {
        var words = [
            "\(request.method)",
            request.target.encodedPath == "*"
                ? "*" : "/" + request.segments.map { PercentCoding.encode($0) }.joined(separator: "/"),
        ]
        if !request.query.items.isEmpty {
            words.append(
                "?"
                    + request.query.items.map { PercentCoding.encode($0.name) + "=" + PercentCoding.encode($0.value) }.joined(
                        separator: "&"))
        }
        words.append("@" + request.host)
        if request.declaresBody {
            words.append(
                request.body.count < 40
                    ? "\"" + PercentCoding.encode(String(decoding: request.body, as: UTF8.self)) + "\"" : "\(request.body.count)")
        }
        if request.endsConnection { words.append("close") }
        let text = words.joined(separator: " ")
        return text.utf8.count < 200 ? text : "\(text.prefix(20))… \(text.utf8.count)"
    }

    /// The table says of a request that is taken how the broker answers it, too.
    static func withoutStatusOfTaken(_ expected: String) -> String {
        expected.split(separator: " ; ").map { item in
            item.contains(" ! ") || item.first == "(" ? item : item.drop { $0.isNumber }.drop { $0 == " " }
        }.joined(separator: " ; ")
    }
}

extension RequestRowTests {
    /// Writes the table anew from `MARTLET_HTTP_ROWS`, a file of requests: to be read through by whoever changes it.
    @Test(.enabled(if: getenv("MARTLET_HTTP_ROWS") != nil)) func `the table is written anew`() throws {
        let path = String(cString: try #require(getenv("MARTLET_HTTP_ROWS")))
        let file = try #require(fopen(path, "r"))
        var line: UnsafeMutablePointer<CChar>?
        var capacity = 0
        while getline(&line, &capacity, file) > 0, let line {
            let text = String(cString: line).filter { $0 != "\n" }
            guard !text.isEmpty, !text.hasPrefix("# "), let bytes = RowText.bytes(text) else {
                print(text)
                continue
            }
            print("\(text) => \(Self.outcome(of: [bytes[...]]))")
        }
    }
}
