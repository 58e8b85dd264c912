public import BrokerModel
internal import Bytes
public import MQTTCodec
internal import Platform

/// SCRAM-SHA-256 (RFC 5802, RFC 7677): client and broker prove to each other that they know the password, and none of
/// it is sent.
///
/// Without channel binding. Names are prepared with SASLprep, here and where they are kept; passwords where they are
/// kept, and by the client.
public final class ScramSHA256: EnhancedAuthenticator {
    public let method: EncodedString = "SCRAM-SHA-256"
    private let users: ScramFile
    private let makeNonce: @Sendable () -> [UInt8]

    /// - Parameters:
    ///   - users: who may log in.
    ///   - makeNonce: at least 18 new random bytes for each exchange, of which nobody knows any before.
    public init(users: ScramFile, makeNonce: @escaping @Sendable () -> [UInt8]) {
        self.users = users
        self.makeNonce = makeNonce
    }

    public func makeExchange(for request: AuthenticationRequest, as subject: LoginSubject) -> any EnhancedExchange {
        makeExchange()
    }

    func makeExchange() -> ScramExchange { ScramExchange(users: users, nonce: Base64.encode(makeNonce())) }

    public func keeps(_ userName: EncodedString, of earlier: any EnhancedAuthenticator) -> Bool {
        guard let earlier = earlier as? ScramSHA256 else { return false }
        return earlier === self || users.hasSameEntry(of: userName.bytes, as: earlier.users)
    }
}

/// One run of SCRAM, the server's side.
///
///     awaitingFirst ──client-first──► awaitingFinal ──client-final──► finished
///           └─────────────────────────────┴── anything wrong ────────────▲
final class ScramExchange: EnhancedExchange {
    private enum State {
        /// The client has not said who it is; it may do so in CONNECT, or in its answer to an empty challenge.
        case awaitingFirst
        /// The salt is sent, and the proof awaited.
        case awaitingFinal(ScramClientFirst, ScramCredentials, nonce: String, serverFirst: String)
        /// Accepted or refused; nothing more may come.
        case finished
    }

    private let users: ScramFile
    private let nonce: String
    private var state = State.awaitingFirst

    /// - Parameter nonce: printable ASCII without a comma, this exchange's own, that nobody can know before.
    init(users: ScramFile, nonce: String) {
        self.users = users
        self.nonce = nonce
    }

    func begin(
        data: [UInt8]?, reply: @escaping @Sendable (AuthenticationOutcome) -> Void
    ) -> (any AbandonedLogin)? {
        reply(begin(data: data))
        return nil
    }

    func proceed(
        data: [UInt8]?, reply: @escaping @Sendable (AuthenticationOutcome) -> Void
    ) -> (any AbandonedLogin)? {
        reply(proceed(data: data))
        return nil
    }

    func begin(data: [UInt8]?) -> AuthenticationOutcome {
        // Without initial data the client expects to be asked. [RFC 4422, section 5]
        guard let data else { return .challenge(data: []) }
        return proceed(data: data)
    }

    func proceed(data: [UInt8]?) -> AuthenticationOutcome {
        switch state {
        case .awaitingFirst: return receivedFirst(data ?? [])
        case .awaitingFinal(let first, let credentials, let nonce, let serverFirst):
            return receivedFinal(data ?? [], first, credentials, nonce, serverFirst)
        case .finished: return .refused(.protocolError)
        }
    }

    private func receivedFirst(_ data: [UInt8]) -> AuthenticationOutcome {
        guard let first = ScramClientFirst(data) else { return refuse(.protocolError) }
        // Nobody may act for another here.
        if let authorized = first.authorizationIdentity, authorized != first.user { return refuse(.notAuthorized) }
        let credentials = users.credentials(of: first.user)
        let nonce = first.nonce + self.nonce
        let serverFirst = "r=\(nonce),s=\(Base64.encode(credentials.salt)),i=\(credentials.iterations)"
        state = .awaitingFinal(first, credentials, nonce: nonce, serverFirst: serverFirst)
        return .challenge(data: Array(serverFirst.utf8))
    }

    private func receivedFinal(
        _ data: [UInt8], _ first: ScramClientFirst, _ credentials: ScramCredentials, _ nonce: String, _ serverFirst: String
    ) -> AuthenticationOutcome {
        guard let final = ScramClientFinal(data), final.nonce == nonce, final.channelBinding == Array(first.header.utf8) else {
            return refuse(.protocolError)
        }
        let message = "\(first.bare),\(serverFirst),\(final.withoutProof)"
        let clientKey = ScramKeys.proof(of: final.proof, stored: credentials.storedKey, message)
        guard ConstantTime.equal(HashFunction.sha256.digest(clientKey), credentials.storedKey) else {
            return refuse(.notAuthorized, because: .wrongPassword)
        }
        state = .finished
        return .accepted(
            userName: EncodedString(first.user), data: ScramKeys.verifier(server: credentials.serverKey, message))
    }

    private func refuse(_ reason: ReasonCode, because failure: LoginFailure = .unspecified) -> AuthenticationOutcome {
        state = .finished
        return .refused(reason, because: failure)
    }
}

/// The client's final message: `c=biws,r=nonce,p=proof`.
struct ScramClientFinal {
    let channelBinding: [UInt8]
    let nonce: String
    let proof: [UInt8]
    /// The message without `,p=…`, which is signed.
    let withoutProof: String

    /// Reads it; nil for what is not one.
    init?(_ data: [UInt8]) {
        guard data.count <= Limits.scramMessageBytesMax, let text = String(validating: data, as: UTF8.self) else { return nil }
        let attributes = ScramAttribute.parts(of: text[...])
        guard attributes.count >= 3, let last = attributes.last, attributes[0].hasPrefix("c="), attributes[1].hasPrefix("r="),
            last.hasPrefix("p="), attributes.dropFirst(2).dropLast().allSatisfy(ScramAttribute.isExtension),
            let binding = Base64.decode(attributes[0].dropFirst(2)), let proof = Base64.decode(last.dropFirst(2)),
            proof.count == HashFunction.sha256.digestCount
        else { return nil }
        channelBinding = binding
        nonce = String(attributes[1].dropFirst(2))
        self.proof = proof
        withoutProof = String(text[..<last.startIndex].dropLast())
    }
}

/// The client's first message: `n,,n=user,r=nonce`.
struct ScramClientFirst {
    /// The part before the bare message, which the final message repeats: `n,,` or `y,,` or `n,a=name,`.
    let header: String
    /// `n=user,r=nonce` and perhaps extensions.
    let bare: String
    /// Prepared, as the name is.
    let authorizationIdentity: [UInt8]?
    /// As SASLprep has it; what is signed is `bare`, as it came.
    let user: [UInt8]
    let nonce: String

    /// Reads it; nil for what is not one, holds a name that SASLprep forbids, or asks for channel binding (`p=`) or an
    /// extension that must be understood (`m=`).
    init?(_ data: [UInt8]) {
        guard data.count <= Limits.scramMessageBytesMax, let text = String(validating: data, as: UTF8.self) else { return nil }
        let parts = ScramAttribute.parts(of: text[...], maxSplits: 2)
        // "n": the client has no channel binding; "y": it has, and thinks that we have none.
        guard parts.count == 3, parts[0] == "n" || parts[0] == "y" else { return nil }
        header = "\(parts[0]),\(parts[1]),"
        bare = String(parts[2])
        if parts[1].isEmpty {
            authorizationIdentity = nil
        } else {
            guard parts[1].hasPrefix("a="), let name = Self.preparedName(parts[1].dropFirst(2)) else { return nil }
            authorizationIdentity = name
        }
        let attributes = ScramAttribute.parts(of: parts[2])
        guard attributes.count >= 2, attributes[0].hasPrefix("n="), let user = Self.preparedName(attributes[0].dropFirst(2)),
            attributes[1].hasPrefix("r="), ScramAttribute.isNonce(attributes[1].dropFirst(2)),
            attributes.dropFirst(2).allSatisfy(ScramAttribute.isExtension)
        else { return nil }
        self.user = user
        nonce = String(attributes[1].dropFirst(2))
    }

    private static func preparedName(_ text: Substring) -> [UInt8]? {
        ScramAttribute.name(text).flatMap { SASLprep.prepare($0, for: .asking) }
    }
}

/// The pieces of SCRAM's messages. [RFC 5802, section 7]
enum ScramAttribute {
    /// The text between commas: bytes, because a comma that a combining mark follows is a comma all the same.
    static func parts(of text: Substring, maxSplits: Int = .max) -> [Substring] {
        text.utf8.split(separator: UInt8(ascii: ","), maxSplits: maxSplits, omittingEmptySubsequences: false).map { Substring($0) }
    }

    /// A name in which `=2C` stands for a comma and `=3D` for an equals sign; nil for an empty one or another use of
    /// `=`.
    static func name(_ text: Substring) -> [UInt8]? {
        var name: [UInt8] = []
        var rest = Array(text.utf8)[...]
        while let byte = rest.popFirst() {
            if byte == UInt8(ascii: "=") {
                let code = String(decoding: rest.prefix(2), as: UTF8.self)
                guard code == "2C" || code == "3D" else { return nil }
                name.append(code == "2C" ? UInt8(ascii: ",") : UInt8(ascii: "="))
                rest = rest.dropFirst(2)
            } else {
                name.append(byte)
            }
        }
        return name.isEmpty ? nil : name
    }

    /// Whether it is printable ASCII without a comma, of a length that a client can mean.
    static func isNonce(_ text: Substring) -> Bool {
        (8...1024).contains(text.utf8.count) && text.utf8.allSatisfy { (0x21...0x7e).contains($0) && $0 != UInt8(ascii: ",") }
    }

    /// Whether it is an attribute that may be passed over: a letter other than those that have a meaning, and a value.
    static func isExtension(_ text: Substring) -> Bool {
        guard text.utf8.count > 2, let letter = text.utf8.first, text.dropFirst().first == "=" else { return false }
        let isLetter = (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(letter | 0x20)
        return isLetter && !"amnrcpvise".utf8.contains(letter)
    }
}

/// `martlet_scram_file`: `user:SCRAM-SHA-256$…` on each line.
///
/// Two names that SASLprep makes one are one user's.
///
/// Immutable; shared by all loops.
public struct ScramFile: Sendable {
    /// Warnings of what is probably not meant as it stands.
    public let warnings: [SecurityFileProblem]
    private let credentials: [[UInt8]: ScramCredentials]
    /// What stands in for users that are not there.
    private let standIn: ScramStandIn

    /// Reads the file at `path`.
    public init(path: String) throws(SecurityFileError) {
        try self.init(SecurityFileReader.contents(of: path), file: path)
    }

    /// Reads the bytes of a file; `file` is what messages call it.
    public init(_ bytes: [UInt8], file: String) throws(SecurityFileError) {
        var lines = SecurityFileLines(bytes, file: file)
        var credentials: [[UInt8]: ScramCredentials] = [:]
        for line in lines.lines {
            guard let entry = CredentialLine(line.text) else {
                lines.report(
                    "the line has no colon between a user and an entry, and is passed over. Set the user's password: "
                        + "martlet passwd -H scram-sha-256 \(file) USER.", line: line.number, severity: .warning)
                continue
            }
            let name = String(decoding: entry.user, as: UTF8.self)
            if entry.user.isEmpty {
                lines.report("the user's name is empty.", line: line.number)
                continue
            }
            if EncodedString(Array(entry.user)) == nil {
                lines.report("the user's name is not valid UTF-8, or longer than 65535 bytes.", line: line.number)
                continue
            }
            guard let user = SASLprep.prepare(Array(entry.user), for: .storing) else {
                lines.report(
                    "the user's name holds what SASLprep (RFC 4013) forbids, or is longer than \(SASLprep.preparedBytes) bytes.",
                    line: line.number)
                continue
            }
            if credentials[user] != nil {
                lines.report("the user \(name) is in the file twice.", line: line.number)
            } else if let parsed = ScramCredentials(String(decoding: entry.secret, as: UTF8.self)) {
                credentials[user] = parsed
            } else {
                lines.report(
                    "the entry of \(name) does not have the form SCRAM-SHA-256$ITERATIONS:SALT$STORED_KEY:SERVER_KEY; "
                        + "\"martlet passwd -H scram-sha-256 FILE USER\" makes such entries.", line: line.number)
            }
        }
        try lines.check()
        warnings = lines.problems
        self.credentials = credentials
        standIn = ScramStandIn(for: credentials.values)
    }

    public var count: Int { credentials.count }

    /// Whether a prepared user is in both files, with the same password.
    func hasSameEntry(of user: [UInt8], as other: ScramFile) -> Bool {
        guard let entry = credentials[user] else { return false }
        return other.credentials[user] == entry
    }

    /// A prepared user's credentials, or for one that is not there such that nobody has, the same each time.
    func credentials(of user: [UInt8]) -> ScramCredentials { credentials[user] ?? standIn.credentials(of: user) }
}

/// Credentials for users that do not exist, so that asking for a user's salt does not tell whether there is such a
/// user.
struct ScramStandIn: Sendable {
    private let secret: [UInt8]
    private let iterations: Int
    private let saltCount: Int

    /// Looks like most of the given ones. Its secret comes from them, so that a salt does not change when the broker
    /// starts again, and rarely when a user is added.
    init(for credentials: some Collection<ScramCredentials>) {
        let least = credentials.map(\.serverKey).min { $0.lexicographicallyPrecedes($1) }
        secret = HashFunction.sha256.authenticationCode(
            Array("martlet: users that are not there".utf8), key: least ?? Salt.make(count: 32))
        iterations = Self.mostCommon(credentials.map(\.iterations)) ?? ScramKeys.iterationsStandard
        saltCount = Self.mostCommon(credentials.map(\.salt.count)) ?? 16
    }

    func credentials(of user: [UInt8]) -> ScramCredentials {
        ScramCredentials(
            iterations: iterations, salt: salt(of: user), storedKey: derived("stored", user), serverKey: derived("server", user))
    }

    private func salt(of user: [UInt8]) -> [UInt8] {
        var salt: [UInt8] = []
        while salt.count < saltCount { salt += derived("salt \(salt.count)", user) }
        return Array(salt.prefix(saltCount))
    }

    private func derived(_ purpose: String, _ user: [UInt8]) -> [UInt8] {
        HashFunction.sha256.authenticationCode(Array(purpose.utf8) + [0] + user, key: secret)
    }

    private static func mostCommon(_ values: [Int]) -> Int? {
        var counts: [Int: Int] = [:]
        for value in values { counts[value, default: 0] += 1 }
        return counts.max { ($0.value, $0.key) < ($1.value, $1.key) }?.key
    }
}

/// What a server keeps of a password for SCRAM-SHA-256: enough to check a client and to prove itself, not enough to log
/// in.
///
///     SCRAM-SHA-256$4096:SALT$STORED_KEY:SERVER_KEY          PostgreSQL's form; Base64
struct ScramCredentials: Sendable, Equatable {
    static let prefix = "SCRAM-SHA-256$"

    let iterations: Int
    let salt: [UInt8]
    let storedKey: [UInt8]
    let serverKey: [UInt8]

    init(iterations: Int, salt: [UInt8], storedKey: [UInt8], serverKey: [UInt8]) {
        self.iterations = iterations
        self.salt = salt
        self.storedKey = storedKey
        self.serverKey = serverKey
    }

    /// Makes the credentials of a prepared password.
    init(
        password: [UInt8], iterations: Int = ScramKeys.iterationsStandard, salt: [UInt8] = Salt.make(count: 16)
    ) {
        let keys = ScramKeys(password: password, salt: salt, iterations: iterations)
        self.init(iterations: iterations, salt: salt, storedKey: keys.stored, serverKey: keys.server)
    }

    /// Reads the credentials that a file has; nil for a text of another form.
    init?(_ text: String) {
        guard text.hasPrefix(Self.prefix) else { return nil }
        let parts = text.dropFirst(Self.prefix.count).split(separator: "$", omittingEmptySubsequences: false)
        guard parts.count == 2 else { return nil }
        let cost = parts[0].split(separator: ":", omittingEmptySubsequences: false)
        let keys = parts[1].split(separator: ":", omittingEmptySubsequences: false)
        guard cost.count == 2, keys.count == 2, let iterations = Int(cost[0]), iterations >= 1,
            iterations <= Limits.iterationsMax, let salt = Base64.decode(cost[1]), !salt.isEmpty, salt.count <= 1024,
            let storedKey = Base64.decode(keys[0]), storedKey.count == HashFunction.sha256.digestCount,
            let serverKey = Base64.decode(keys[1]), serverKey.count == HashFunction.sha256.digestCount
        else { return nil }
        self.init(iterations: iterations, salt: salt, storedKey: storedKey, serverKey: serverKey)
    }

    var text: String {
        "\(Self.prefix)\(iterations):\(Base64.encode(salt))$\(Base64.encode(storedKey)):\(Base64.encode(serverKey))"
    }
}

extension Limits {
    /// Bytes of a client's SCRAM message: a user name of the greatest length, escaped, and a nonce are far below. A
    /// longer one is refused.
    static let scramMessageBytesMax = 256 * 1024
}
