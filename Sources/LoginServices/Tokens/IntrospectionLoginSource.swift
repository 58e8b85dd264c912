internal import BrokerModel
internal import Bytes
internal import HTTP
package import HTTPClient
internal import JSON
internal import JSONReader
package import JSONWebTokens
public import MQTTCodec
internal import Platform
public import Security

/// Logins by tokens that only their issuer can read, who is asked: OAuth 2.0 Token Introspection, RFC 7662.
///
///     POST token=…&token_type_hint=access_token        {"active": true, "sub": "anna", "exp": …} ─► its claims are judged
///                                                      {"active": false} ─► unknown, the next source is asked
///
/// What the issuer has said of a token holds for a while, at most until the token ends. For any thread.
public final class IntrospectionLoginSource: LoginSource {
    public let name = "introspection"
    private let client: HTTPClient
    private let fields: [HTTPQuestion.Field]
    private let verifier: TokenVerifier
    private let isInUserName: Bool
    private let roles: TokenLoginSource.RoleLookup?
    private let cache: Locked<IntrospectionCache>

    /// - Parameters:
    ///   - client: of the issuer's server.
    ///   - credentials: the broker's own there; nil for none.
    ///   - verifier: has the operator's rules for claims.
    ///   - isInUserName: whether clients put tokens into the user name, and not into the password.
    ///   - roles: dynamic security's; nil where there is none.
    ///   - cacheSeconds: for how long an answer holds; nil to ask each time.
    package init(
        _ client: HTTPClient, credentials: (identifier: String, secret: String)?, verifier: TokenVerifier, isInUserName: Bool,
        roles: TokenLoginSource.RoleLookup?, cacheSeconds: Int?
    ) {
        var fields: [HTTPQuestion.Field] = [
            .init("Content-Type", "application/x-www-form-urlencoded"), .init("Accept", "application/json"),
        ]
        if let credentials {
            // RFC 6749, section 2.3.1: both are encoded as in a form before they become one text.
            let text = "\(FormText.encoded(credentials.identifier.utf8)):\(FormText.encoded(credentials.secret.utf8))"
            fields.append(.init("Authorization", "Basic \(Base64.encode(Array(text.utf8)))"))
        }
        (self.client, self.fields, self.verifier) = (client, fields, verifier)
        (self.isInUserName, self.roles) = (isInUserName, roles)
        cache = Locked(IntrospectionCache(seconds: cacheSeconds))
    }

    public func recalled(_ question: LoginQuestion) -> LoginAnswer? {
        guard let token = token(in: question) else { return nil }
        let key = HashFunction.sha256.digest(token)
        guard let claims = cache.withLock({ $0.claims(of: key, now: WallClock.seconds()) }) else { return nil }
        return judge(claims, LoginClient(question))
    }

    public func decide(
        _ question: LoginQuestion, reply: @escaping @Sendable (LoginAnswer) -> Void
    ) -> (any AbandonedLogin)? {
        guard let token = token(in: question) else {
            reply(.next(.noToken))
            return nil
        }
        let (bearer, key) = (LoginClient(question), HashFunction.sha256.digest(token))
        let body = "token=\(FormText.encoded(token))&token_type_hint=access_token"
        let asked = HTTPQuestion(.post, client.address.target, fields: fields, body: Array(body.utf8))
        return AbandonedCall(
            client.ask(asked) { [self] result in
                switch result {
                case .failure(let failure): reply(failure.kind == .busy ? .busy : .failed("\(failure)"))
                case .success(let answer): reply(read(answer, of: key, bearer))
                }
            })
    }

    /// What an issuer has said holds until its end.
    public func keeps(_ userName: EncodedString, of earlier: any LoginSource) -> Bool {
        guard let earlier = earlier as? IntrospectionLoginSource else { return false }
        return earlier === self || earlier.verifier.rules == verifier.rules
    }

    /// What may be a token; nil for what somebody else may know.
    private func token(in question: LoginQuestion) -> [UInt8]? {
        let given = isInUserName ? question.userName?.bytes : question.password
        guard let given, !given.isEmpty, given.count <= verifier.rules.tokenBytesMax ?? Limits.opaqueTokenBytesMax,
            given.allSatisfy({ (0x21...0x7E).contains($0) })
        else { return nil }
        return given
    }

    private func read(_ answer: HTTPAnswer, of key: [UInt8], _ client: LoginClient) -> LoginAnswer {
        switch answer.status.rawValue {
        case 200: break
        case 401, 403: return .failed("does not accept the broker's own login: \(answer.status)")
        default: return .failed("answers \(answer.status)")
        }
        guard let value = try? JSONValue(reading: answer.body, bytesMax: Limits.answerBytesMax), let claims = value.object else {
            return .failed("answers what is no JSON object")
        }
        guard let isActive = claims["active"]?.boolean else {
            return .failed("answers without an \"active\" that is true or false")
        }
        guard isActive else { return .next(.reported("its token is not accepted: its issuer says that it is not active")) }
        cache.withLock { $0.keep(claims, bytes: answer.body.count, of: key, now: WallClock.seconds()) }
        return judge(claims, client)
    }

    private func judge(_ claims: JSONMembers, _ client: LoginClient) -> LoginAnswer {
        do throws(TokenRefusal) {
            let login = try verifier.login(by: claims, bearer: client.bearer, now: WallClock.seconds())
            let answer = try client.answer(login, source: name, leewaySeconds: verifier.rules.leewaySeconds, roles)
            // Who is nobody by name is not called by a token either.
            if isInUserName, case .allowed(nil, let grant) = answer {
                return .allowed(userName: client.userName?.tokenFingerprint, grant)
            }
            return answer
        } catch {
            return .refused(.reported("its token is not accepted: \(error)"))
        }
    }
}

/// What issuers have said of tokens lately, by the tokens' hashes. Bounded in entries and bytes: the oldest goes first.
struct IntrospectionCache: Sendable {
    private struct Entry: Sendable {
        let claims: JSONMembers
        let bytes: Int
        let until: Int64
    }

    private let seconds: Int?
    private var entries: [[UInt8]: Entry] = [:]
    /// In the order in which they came; from `first` on.
    private var order: [[UInt8]] = []
    private var first = 0
    private(set) var bytes = 0

    /// - Parameter seconds: for how long an answer holds; nil to keep none.
    init(seconds: Int?) { self.seconds = seconds }

    var count: Int { entries.count }

    /// - Parameter now: seconds since 1970.
    mutating func claims(of key: [UInt8], now: Int64) -> JSONMembers? {
        guard let entry = entries[key], now < entry.until else { return nil }
        return entry.claims
    }

    /// - Parameters:
    ///   - bytes: of the answer.
    ///   - now: seconds since 1970.
    mutating func keep(_ claims: JSONMembers, bytes size: Int, of key: [UInt8], now: Int64) {
        guard let seconds else { return }
        let end = claims["exp"]?.integer ?? .max
        // A key that is there keeps its place in the order.
        if entries[key] == nil { order.append(key) }
        remove(key)
        entries[key] = Entry(claims: claims, bytes: size, until: min(end, now + Int64(seconds)))
        bytes += size
        while entries.count > Limits.introspectionsMax || bytes > Limits.introspectionBytesMax, first < order.count {
            remove(order[first])
            first += 1
        }
        if first > order.count / 2 {
            order.removeFirst(first)
            first = 0
        }
    }

    private mutating func remove(_ key: [UInt8]) {
        guard let entry = entries.removeValue(forKey: key) else { return }
        bytes -= entry.bytes
    }
}

/// Texts of application/x-www-form-urlencoded.
enum FormText {
    static func encoded(_ bytes: some Sequence<UInt8>) -> String {
        var text: [UInt8] = []
        let digits = Array("0123456789ABCDEF".utf8)
        for byte in bytes {
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"),
                UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "~"):
                text.append(byte)
            default: text += [UInt8(ascii: "%"), digits[Int(byte >> 4)], digits[Int(byte & 15)]]
            }
        }
        return String(decoding: text, as: UTF8.self)
    }
}

extension Limits {
    /// Bytes of a token that an issuer is asked about; a longer one is nobody's.
    static let opaqueTokenBytesMax = 16 * 1024

    /// Answers of issuers that are kept; the oldest goes for a new one. Bytes: `introspectionBytesMax`.
    static let introspectionsMax = 10_000

    /// Bytes of all of them; the oldest go for a new one.
    static let introspectionBytesMax = 8 << 20
}
