/// The head of a request, read and judged, RFC 9112, sections 3, 5 and 6.
public struct HTTPRequestHead: Sendable, Equatable {
    /// How long the body is.
    public enum Framing: Sendable, Equatable {
        /// It says nothing of a body, so there is none.
        case none
        case length(Int)
        case chunked
    }

    public let method: HTTPMethod
    public let target: HTTPTarget
    public let version: HTTPVersion
    public let fields: HTTPFields
    /// See `HTTPRequest.host`.
    public let host: String
    public let framing: Framing

    /// Reads a head, with or without its last empty line.
    public init(_ head: some Collection<UInt8>) throws(HTTPRefusal) {
        let lines = try HTTPHeadLines.parse(head)
        let words = lines[0].split(separator: UInt8(ascii: " "), omittingEmptySubsequences: false)
        guard words.count == 3 else {
            throw .malformed("The first line is not method, target and version with one blank between each.")
        }
        guard !words[0].isEmpty, words[0].allSatisfy(HTTPText.isToken) else { throw .malformed("The method is not a valid token.") }
        version = try Self.version(words[2])
        method = HTTPMethod(rawValue: String(decoding: words[0], as: UTF8.self))
        fields = try HTTPHeadLines.fields(lines.dropFirst())
        let stated = try Self.host(of: fields, version)
        (target, host) = try Self.target(words[1], method, host: stated)
        framing = try Self.framing(of: fields, version)
        if let expectation = fields["Expect"], version == .http11, !HTTPText.isSame(expectation, "100-continue") {
            throw HTTPRefusal(.expectationFailed, "Unsupported expectation.")
        }
    }

    /// Whether its peer waits for leave to send the body, RFC 9110, section 10.1.1.
    public var expectsContinue: Bool { version == .http11 && fields["Expect"] != nil && framing != .none && framing != .length(0) }

    // MARK: The first line

    private static func version(_ word: ArraySlice<UInt8>) throws(HTTPRefusal) -> HTTPVersion {
        let bytes = Array(word)
        guard bytes.count == 8, bytes.starts(with: "HTTP/".utf8), HTTPText.isDigit(bytes[5]), bytes[6] == UInt8(ascii: "."),
            HTTPText.isDigit(bytes[7])
        else { throw .malformed("The first line does not end with a version of HTTP.") }
        guard bytes[5] == UInt8(ascii: "1") else { throw HTTPRefusal(.versionNotSupported, "HTTP/1.1 is spoken here.") }
        return bytes[7] == UInt8(ascii: "0") ? .http10 : .http11
    }

    /// The target in its four forms, RFC 9112, section 3.2; the absolute one brings the host that counts.
    private static func target(
        _ word: ArraySlice<UInt8>, _ method: HTTPMethod, host: String
    ) throws(HTTPRefusal) -> (HTTPTarget, String) {
        if method == .connect { throw HTTPRefusal(.notImplemented, "This is not a proxy.") }
        if word.elementsEqual([UInt8(ascii: "*")]) {
            guard method == .options else { throw .malformed("The target * is only for OPTIONS.") }
            return (.server, host)
        }
        if let target = HTTPTarget(word) { return (target, host) }
        // Nothing lies above the root; mosquitto, too, looks for it and finds nothing.
        if word.starts(with: "../".utf8), HTTPTarget("/".utf8 + Array(word)) != nil { throw HTTPRefusal(.notFound, "Not found.") }
        let text = String(decoding: word, as: UTF8.self)
        guard let scheme = ["http://", "https://"].first(where: { HTTPText.isSame(text.prefix($0.utf8.count), $0) }) else {
            throw .malformed("The request target is not a valid path.")
        }
        let rest = word.dropFirst(scheme.utf8.count)
        let end = rest.firstIndex { $0 == UInt8(ascii: "/") || $0 == UInt8(ascii: "?") } ?? rest.endIndex
        let path = rest[end...].first == UInt8(ascii: "/") ? Array(rest[end...]) : [UInt8(ascii: "/")] + rest[end...]
        guard let target = HTTPTarget(path) else { throw .malformed("The request target is not a valid path.") }
        return (target, try checkedHost(String(decoding: rest[..<end], as: UTF8.self)))
    }

    // MARK: The host

    private static func host(of fields: HTTPFields, _ version: HTTPVersion) throws(HTTPRefusal) -> String {
        let hosts = fields.values(of: "Host")
        guard hosts.count <= 1 else { throw .malformed("The field Host is given more than once.") }
        guard let host = hosts.first else {
            if version == .http10 { return "" }
            throw .malformed("The field Host is missing.")
        }
        return try checkedHost(host)
    }

    /// A host with or without a port, RFC 3986, section 3.2.2, in lower case.
    private static func checkedHost(_ text: String) throws(HTTPRefusal) -> String {
        let bytes = text.utf8.map(HTTPText.lowercased)
        let bracket = bytes.first == UInt8(ascii: "[") ? bytes.firstIndex(of: UInt8(ascii: "]")) : nil
        let nameEnd = bracket.map { $0 + 1 } ?? bytes.firstIndex(of: UInt8(ascii: ":")) ?? bytes.endIndex
        let name = bytes[..<nameEnd]
        let port = bytes[nameEnd...]
        let isNamed =
            bracket == nil
            ? !name.isEmpty && name.allSatisfy(isHostByte)
            : name.count > 2
                && name.dropFirst().dropLast().allSatisfy { HTTPText.hexDigit($0) != nil || $0 == 0x3A || $0 == 0x2E || $0 == 0x25 }
        let hasPort =
            port.isEmpty || (port.first == UInt8(ascii: ":") && port.count <= 6 && port.dropFirst().allSatisfy(HTTPText.isDigit))
        guard isNamed, hasPort else { throw .malformed("The field Host names no host.") }
        return String(decoding: bytes, as: UTF8.self)
    }

    /// Of a name, RFC 3986's reg-name: a comma and the other signs that no name of a host has are left out.
    private static func isHostByte(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."),
            UInt8(ascii: "_"), UInt8(ascii: "~"), UInt8(ascii: "%"):
            true
        default: false
        }
    }

    // MARK: The body

    /// How long the body is, RFC 9112, section 6.3.
    private static func framing(of fields: HTTPFields, _ version: HTTPVersion) throws(HTTPRefusal) -> Framing {
        let lengths = fields.values(of: "Content-Length")
        guard fields.count(of: "Transfer-Encoding") > 0 else {
            guard let length = lengths.first else { return .none }
            guard lengths.count == 1, let number = HTTPText.number(length.utf8) else {
                throw .malformed(
                    lengths.count > 1 ? "The field Content-Length is given more than once." : "Content-Length is not a number.")
            }
            return .length(number)
        }
        guard lengths.isEmpty else { throw .malformed("The request has both Content-Length and Transfer-Encoding.") }
        guard version == .http11 else { throw .malformed("HTTP/1.0 has no Transfer-Encoding.") }
        let codings = fields.list("Transfer-Encoding").map { $0.lowercased() }
        guard codings.last == "chunked", codings.count(where: { $0 == "chunked" }) == 1 else {
            throw .malformed("Transfer-Encoding does not end with chunked, so where the request ends is not known.")
        }
        guard codings.count == 1 else { throw HTTPRefusal(.notImplemented, "No transfer coding but chunked is known here.") }
        // A list with empty members, too: others may read it otherwise.
        guard HTTPText.isSame(fields["Transfer-Encoding"] ?? "", "chunked") else {
            throw .malformed("Transfer-Encoding is more than the word chunked.")
        }
        return .chunked
    }
}

/// The head of an answer, as a client reads it.
public struct HTTPResponseHead: Sendable, Equatable {
    public let status: HTTPStatus
    /// What the server calls it.
    public let reason: String
    public let version: HTTPVersion
    public let fields: HTTPFields

    /// Reads a head, with or without its last empty line; nil when it is none.
    public init?(_ head: some Collection<UInt8>) {
        guard let lines = try? HTTPHeadLines.parse(head), let fields = try? HTTPHeadLines.fields(lines.dropFirst()) else {
            return nil
        }
        let words = lines[0].split(separator: UInt8(ascii: " "), maxSplits: 2, omittingEmptySubsequences: false)
        guard words.count >= 2, words[0].elementsEqual("HTTP/1.1".utf8) || words[0].elementsEqual("HTTP/1.0".utf8),
            words[1].count == 3,
            let code = HTTPText.number(words[1])
        else { return nil }
        version = words[0].last == UInt8(ascii: "0") ? .http10 : .http11
        status = HTTPStatus(rawValue: code)
        reason = words.count > 2 ? String(decoding: words[2], as: UTF8.self) : ""
        self.fields = fields
    }
}

/// The lines of a head: every line ends with CRLF, and CR, LF and NUL stand nowhere else.
enum HTTPHeadLines {
    /// The lines of a head that is given without its last empty line, or of one with it; each without its end.
    static func parse(_ head: some Collection<UInt8>) throws(HTTPRefusal) -> [ArraySlice<UInt8>] {
        let bytes = Array(head)
        var lines: [ArraySlice<UInt8>] = []
        var start = 0
        var index = 0
        while index < bytes.count {
            switch bytes[index] {
            case 0x0D:
                guard index + 1 < bytes.count, bytes[index + 1] == 0x0A else {
                    throw .malformed("A carriage return has no line feed after it.")
                }
                lines.append(bytes[start..<index])
                index += 2
                start = index
                continue
            case 0x0A: throw .malformed("A line ends without a carriage return.")
            case 0: throw .malformed("A byte of the request's head is zero.")
            default: index += 1
            }
        }
        if start < bytes.count || lines.isEmpty { lines.append(bytes[start...]) }
        while lines.count > 1, lines.last?.isEmpty == true { lines.removeLast() }
        return lines
    }

    /// Reads lines as fields, RFC 9112, section 5.
    static func fields(_ lines: some Collection<ArraySlice<UInt8>>) throws(HTTPRefusal) -> HTTPFields {
        guard lines.count <= Limits.fieldCountMax else {
            throw HTTPRefusal(.fieldsTooLarge, "The request has more than \(Limits.fieldCountMax) fields.")
        }
        var fields: [HTTPField] = []
        for line in lines { fields.append(try field(line)) }
        return HTTPFields(fields)
    }

    private static func field(_ line: ArraySlice<UInt8>) throws(HTTPRefusal) -> HTTPField {
        if let first = line.first, HTTPText.isBlank(first) { throw .malformed("A field goes on in another line.") }
        guard let colon = line.firstIndex(of: UInt8(ascii: ":")) else { throw .malformed("A line of the head is not a field.") }
        let name = line[..<colon]
        guard !name.isEmpty, name.allSatisfy(HTTPText.isToken) else {
            throw .malformed(
                name.last.map(HTTPText.isBlank) == true
                    ? "A space is in front of a field's colon." : "A field's name contains a character that is not allowed.")
        }
        let value = HTTPText.trimmed(line[(colon + 1)...])
        guard value.allSatisfy(HTTPText.isFieldByte) else { throw .malformed("A field's value holds a control byte.") }
        return HTTPField(String(decoding: name, as: UTF8.self), String(decoding: value, as: UTF8.self))
    }
}

/// Why a request is not taken: what its peer is answered. The connection ends after it, for where the next request
/// begins is not known.
public struct HTTPRefusal: Error, Equatable, Sendable {
    public let status: HTTPStatus
    /// Fields that belong to the status, such as Allow.
    public var fields: HTTPFields
    /// A sentence that helps.
    public let explanation: String
    /// Whether the peer speaks another protocol than HTTP, so that its operator learns of it from the log alone.
    public private(set) var isOfForeigner = false

    public init(_ status: HTTPStatus, _ explanation: String, fields: HTTPFields = HTTPFields()) {
        self.status = status
        self.explanation = explanation
        self.fields = fields
    }

    static func malformed(_ explanation: String) -> HTTPRefusal { HTTPRefusal(.badRequest, explanation) }

    /// Of a peer whose first byte begins no request.
    static func foreign(firstByte: UInt8) -> HTTPRefusal {
        let words =
            switch firstByte {
            case 0x10: "The client speaks MQTT, and this port HTTP: let it connect to a listener without protocol http_api."
            case 0x16:
                "The client speaks TLS, and this port does not: let it use http instead of https, or give this listener certfile and keyfile."
            default: "This is not HTTP."
            }
        var refusal = malformed(words)
        refusal.isOfForeigner = true
        return refusal
    }

    /// The whole answer.
    public var response: HTTPResponse {
        var response = HTTPResponse.text(explanation + "\n", status: status)
        response.fields.append(contentsOf: fields)
        response.endsConnection = true
        return response
    }
}
