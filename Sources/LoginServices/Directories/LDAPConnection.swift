internal import Security
internal import Transports

/// An entry of a directory, with the attributes that were asked for.
struct LDAPEntry: Equatable {
    var name: String
    /// By their names in lower case.
    var attributes: [String: [String]]

    func values(_ attribute: String) -> [String] { attributes[attribute.lowercased()] ?? [] }
}

/// What a directory said to a request (RFC 4511, section 4.1.9).
struct LDAPResult: Equatable {
    let code: Int
    let message: String

    static let success = 0
    static let sizeLimitExceeded = 4
    static let compareTrue = 6
    static let referral = 10
    static let noSuchAttribute = 16
    static let noSuchObject = 32
    static let inappropriateAuthentication = 48
    static let invalidCredentials = 49

    /// What it says, as a failure of the directory.
    func failure(_ operation: String) -> SourceFailure {
        if code == Self.referral {
            return SourceFailure("answers \(operation) with a referral to another server, which is not asked")
        }
        let names = [
            1: "operationsError", 2: "protocolError", 3: "timeLimitExceeded", 4: "sizeLimitExceeded",
            7: "authMethodNotSupported", 8: "strongerAuthRequired", 11: "adminLimitExceeded", 13: "confidentialityRequired",
            18: "inappropriateMatching", 21: "invalidAttributeSyntax", 32: "noSuchObject", 34: "invalidDNSyntax",
            48: "inappropriateAuthentication", 49: "invalidCredentials", 50: "insufficientAccessRights", 51: "busy",
            52: "unavailable", 53: "unwillingToPerform", 80: "other",
        ]
        let words = message.isEmpty ? "" : ": \(StrangersText.shown(message))"
        // Busy, unavailable: the server, and not the question.
        return SourceFailure(
            "answers \(operation) with \(names[code].map { "\($0) (\(code))" } ?? "the result \(code)")\(words)",
            isLost: [51, 52].contains(code))
    }
}

/// A session with a directory, which answers one request at a time (LDAP 3, RFC 4511).
final class LDAPConnection {
    /// As whom the requests are made.
    private enum Identity: Equatable {
        case anonymous
        case entry(String)
    }

    private let connection: ServerConnection
    private var identity = Identity.anonymous
    private var number: Int32 = 0

    /// - Parameters:
    ///   - connection: to the directory, on which nothing was said.
    ///   - tls: nil for none.
    ///   - startsTLS: whether the directory is asked for it first.
    init(
        _ connection: ServerConnection, tls: TLSClientContext? = nil, startsTLS: Bool = false
    ) throws(SourceFailure) {
        self.connection = connection
        guard let tls else { return }
        if startsTLS {
            let result = try request(0x77, BER.value(0x80, Array("1.3.6.1.4.1.1466.20037".utf8)), answer: 0x78).result
            guard result.code == LDAPResult.success else {
                let failure = result.failure("StartTLS")
                throw SourceFailure(failure.description, isLost: true)
            }
        }
        try connection.startTLS(tls)
    }

    func begin(deadline: UInt64) { connection.begin(deadline: deadline) }

    /// Logs in; the requests that follow are this entry's. A password must not be empty: it would prove nothing, and
    /// many a server says yes.
    func bind(_ entry: String, password: [UInt8]) throws(SourceFailure) -> LDAPResult {
        guard !entry.isEmpty, !password.isEmpty else { return LDAPResult(code: LDAPResult.invalidCredentials, message: "") }
        return try authenticate(entry, password)
    }

    /// Makes the requests that follow those of an entry, unless they are that already.
    func become(_ entry: String, password: [UInt8]) throws(SourceFailure) {
        guard identity != .entry(entry) else { return }
        let result = try bind(entry, password: password)
        guard result.code == LDAPResult.success else {
            throw SourceFailure("does not let the broker in: \(result.failure("its login"))", isLost: true)
        }
    }

    /// Makes the requests that follow nobody's.
    func becomeAnonymous() throws(SourceFailure) {
        guard identity != .anonymous else { return }
        let result = try authenticate("", [])
        guard result.code == LDAPResult.success else { throw result.failure("a login without a name") }
    }

    private func authenticate(_ entry: String, _ password: [UInt8]) throws(SourceFailure) -> LDAPResult {
        // What the server makes of it is not known until it has answered: nobody is taken for the one before.
        identity = .anonymous
        let result = try request(
            0x60, BER.integer(3) + BER.octets(entry) + BER.value(0x80, password), answer: 0x61
        ).result
        identity = result.code == LDAPResult.success && !entry.isEmpty ? .entry(entry) : .anonymous
        return result
    }

    /// Whether an attribute of an entry has this value; the server compares.
    func compare(_ entry: String, _ attribute: String, _ value: [UInt8]) throws(SourceFailure) -> LDAPResult {
        try request(
            0x6E, BER.octets(entry) + BER.value(0x30, BER.octets(attribute) + BER.octets(value)), answer: 0x6F
        ).result
    }

    /// Finds entries.
    ///
    /// - Parameters:
    ///   - base: where they are: this entry and all below it.
    ///   - isOne: whether only that entry itself is meant.
    ///   - filter: as it is sent.
    ///   - attributes: which are told of them.
    ///   - countMax: so many are told; of more, the result says that there are.
    func search(
        _ base: String, isOne: Bool = false, _ filter: [UInt8], attributes: [String], countMax: Int
    ) throws(SourceFailure) -> (entries: [LDAPEntry], result: LDAPResult) {
        let asked = attributes.isEmpty ? ["1.1"] : attributes
        let body =
            BER.octets(base) + BER.integer(isOne ? 0 : 2, tag: 0x0A) + BER.integer(0, tag: 0x0A)
            + BER.integer(Int32(clamping: countMax)) + BER.integer(0) + [0x01, 1, 0] + filter
            + BER.value(0x30, asked.flatMap { BER.octets($0) })
        let answer = try request(0x63, body, answer: 0x65)
        guard answer.entries.count <= countMax else { throw Self.strange }
        return answer
    }

    // MARK: Messages

    private func request(
        _ tag: UInt8, _ body: [UInt8], answer: UInt8
    ) throws(SourceFailure) -> (entries: [LDAPEntry], result: LDAPResult) {
        number += 1
        try connection.send(BER.value(0x30, BER.integer(number) + BER.value(tag, body)))
        var entries: [LDAPEntry] = []
        while true {
            var message = BERReader(try receive()[...])
            guard let identifier = message.integer(), let operation = message.next() else { throw Self.strange }
            // What the server says unasked is that it goes.
            guard identifier == Int(number) else {
                throw SourceFailure("does not answer: it ends the connection", isLost: true)
            }
            switch operation.tag {
            case 0x64 where answer == 0x65: entries.append(try Self.entry(operation.content))
            // A part that another server has, which is not asked.
            case 0x73 where answer == 0x65: continue
            case answer:
                var reader = BERReader(operation.content)
                guard let code = reader.integer(tag: 0x0A), reader.text() != nil, let words = reader.text() else {
                    throw Self.strange
                }
                return (entries, LDAPResult(code: code, message: words))
            default: throw Self.strange
            }
        }
    }

    /// The content of the next message.
    private func receive() throws(SourceFailure) -> [UInt8] {
        let head = try connection.receive(2)
        guard head[0] == 0x30 else { throw Self.strange }
        if head[1] < 0x80 { return try connection.receive(Int(head[1])) }
        let digits = Int(head[1] & 0x7F)
        guard (1...4).contains(digits) else { throw Self.strange }
        return try connection.receive(try connection.receive(digits).reduce(0) { $0 << 8 | Int($1) })
    }

    private static func entry(_ content: ArraySlice<UInt8>) throws(SourceFailure) -> LDAPEntry {
        var reader = BERReader(content)
        guard let name = reader.text(), let list = reader.next(0x30) else { throw strange }
        var attributes: [String: [String]] = [:]
        var members = BERReader(list)
        while let member = members.next() {
            var parts = BERReader(member.content)
            guard member.tag == 0x30, let attribute = parts.text(), let set = parts.next(0x31) else { throw strange }
            var values = BERReader(set)
            while let value = values.text() { attributes[attribute.lowercased(), default: []].append(value) }
        }
        return LDAPEntry(name: name, attributes: attributes)
    }

    private static let strange = SourceFailure("answers what LDAP does not say", isLost: true)
}
