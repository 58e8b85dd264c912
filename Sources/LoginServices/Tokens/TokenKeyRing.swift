internal import HTTP
public import HTTPClient
internal import JSON
internal import JSONReader
package import JSONWebTokens
internal import Platform
public import Transports

/// The keys that tokens are checked with, as they are in force: a file's, and those that a server gives, which change.
///
///     a login ─► keys ─► older than their time? fetched beside, the login goes on with the old ones
///                └ none, or none of that name: fetched, the login waits; at most once in 10 s
///
/// Keys of a server that does not answer any more are used for 24 hours. For any thread.
public final class TokenKeyRing: Sendable {
    /// What fetches keys: gives them with the seconds for which they hold, if the server says so, or words that follow
    /// the source's name.
    package typealias Fetch =
        @Sendable (@escaping @Sendable (Result<(keys: TokenKeys, maxAgeSeconds: Int?), TokenKeyFailure>) -> Void) -> Void
    /// Gets the keys after a fetch, or why there are none that are newer.
    package typealias Waiter = @Sendable (Result<TokenKeys, TokenKeyFailure>) -> Void

    private struct State {
        var fetched = TokenKeys([])
        var schedule = TokenKeySchedule()
        var waiting: [Waiter] = []
        var failure = TokenKeyFailure("has no keys yet")
    }

    private let own: TokenKeys
    private let fetch: Fetch?
    private let clock: @Sendable () -> UInt64
    private let state = Locked(State())

    /// - Parameters:
    ///   - own: keys of files.
    ///   - fetch: nil where no server has any.
    ///   - earlier: of the same server before a reload: what it has fetched serves on.
    ///   - clock: milliseconds that never jump.
    package init(
        own: TokenKeys, fetch: Fetch? = nil, earlier: TokenKeyRing? = nil,
        clock: @escaping @Sendable () -> UInt64 = { MonotonicClock.milliseconds() }
    ) {
        (self.own, self.fetch, self.clock) = (own, fetch, clock)
        guard let earlier else { return }
        let (fetched, schedule) = earlier.state.withLock { ($0.fetched, $0.schedule) }
        state.withLock { state in
            (state.fetched, state.schedule) = (fetched, schedule)
            // What is under way there does not arrive here.
            state.schedule.failed()
        }
    }

    /// The keys that can be used now; what is due to be fetched is, meanwhile.
    package var keys: TokenKeys {
        let now = clock()
        let (keys, isDue) = state.withLock { state in
            let keys = Self.usable(state, own, now)
            return (keys, fetch != nil && state.schedule.begin(now: now, isUrgent: false))
        }
        if isDue { begin() }
        return keys
    }

    /// Has the keys fetched for a token that none of them fits, unless that was just tried.
    ///
    /// - Parameter waiter: called once: after the fetch, or at once.
    package func refresh(_ waiter: @escaping Waiter) {
        guard fetch != nil else { return waiter(.failure(TokenKeyFailure("has no other keys"))) }
        let now = clock()
        let (isWaiting, isDue, failure) = state.withLock { state in
            let isDue = state.schedule.begin(now: now, isUrgent: true)
            let isWaiting = state.schedule.isFetching && state.waiting.count < Limits.tokensWaitingMax
            if isWaiting { state.waiting.append(waiter) }
            return (isWaiting, isDue, state.failure)
        }
        if isDue { begin() }
        if !isWaiting { waiter(.failure(failure)) }
    }

    private func begin() {
        fetch? { [self] result in
            let now = clock()
            let (waiting, answer) = state.withLock { state in
                let answer: Result<TokenKeys, TokenKeyFailure>
                switch result {
                case .success(let (keys, maxAge)):
                    state.fetched = keys
                    state.schedule.succeeded(now: now, maxAgeSeconds: maxAge)
                    state.failure = TokenKeyFailure("has fetched its keys just now")
                    answer = .success(Self.usable(state, own, now))
                case .failure(let failure):
                    state.schedule.failed()
                    state.failure = failure
                    answer = .failure(failure)
                }
                defer { state.waiting = [] }
                return (state.waiting, answer)
            }
            for waiter in waiting { waiter(answer) }
        }
    }

    private static func usable(_ state: State, _ own: TokenKeys, _ now: UInt64) -> TokenKeys {
        guard state.schedule.isUsable(now: now) else { return own }
        return TokenKeys(own.keys + state.fetched.keys, remarks: state.fetched.remarks)
    }
}

/// Why there are no newer keys, in words that follow the name of the source: `cannot fetch its keys: …`.
package struct TokenKeyFailure: Error, Sendable, Equatable, CustomStringConvertible {
    package let description: String

    package init(_ description: String) { self.description = description }
}

/// When keys are fetched again. A value; milliseconds of a clock that never jumps.
///
///     nothing ── begin ─► fetching ── succeeded ─► fresh ── refreshAt ─► begin again, and go on with the old meanwhile
///                            └── failed ─► not again for 10 s                 │ 24 h without an answer
///                                                                            └─► not usable
package struct TokenKeySchedule: Sendable {
    package private(set) var isFetching = false
    private var begunAt: UInt64?
    private var fetchedAt: UInt64?
    private var refreshAt: UInt64 = 0

    package init() {}

    /// Whether keys are to be fetched now; if so, that has begun.
    ///
    /// - Parameter isUrgent: whether somebody needs keys that are not there, and not only newer ones.
    package mutating func begin(now: UInt64, isUrgent: Bool) -> Bool {
        guard !isFetching, isUrgent || now >= refreshAt else { return false }
        if let begunAt, now < begunAt + Limits.keyPauseMilliseconds { return false }
        (isFetching, begunAt) = (true, now)
        return true
    }

    package mutating func succeeded(now: UInt64, maxAgeSeconds: Int?) {
        let seconds = min(max(maxAgeSeconds ?? Limits.keyAgeSeconds, Limits.keyAgeSecondsMin), Limits.keyAgeSecondsMax)
        (isFetching, fetchedAt, refreshAt) = (false, now, now + UInt64(seconds) * 1000)
    }

    package mutating func failed() { isFetching = false }

    /// Whether what was fetched last is young enough.
    package func isUsable(now: UInt64) -> Bool { fetchedAt.map { now < $0 + Limits.staleKeyMilliseconds } ?? false }
}

/// Fetches keys from a server: a JSON Web Key Set, or by way of an issuer's OpenID Connect discovery.
public final class TokenKeyServer: Sendable {
    private let client: HTTPClient
    private let settings: HTTPClientSettings
    private let loop: HTTPClientLoop
    /// The issuers that discovery may find; nil for a set itself.
    private let issuers: [String]?
    /// Where discovery has found the set last.
    private let found = Locked<(url: String, client: HTTPClient)?>(nil)

    /// Throws what is wrong with the files of TLS.
    ///
    /// - Parameters:
    ///   - address: of the set, or of the discovery.
    ///   - settings: of HTTP; bytes and media types of answers are this type's.
    ///   - issuers: who may be discovered; nil where the address is the set's.
    ///   - loop: has to live as long.
    public init(
        _ address: HTTPAddress, _ settings: HTTPClientSettings, issuers: [String]?, on loop: HTTPClientLoop
    ) throws(TLSFailure) {
        var settings = settings
        settings.bodyBytesMax = Limits.keyAnswerBytesMax
        settings.contentTypes = []
        (self.settings, self.loop, self.issuers) = (settings, loop, issuers)
        client = try HTTPClient(to: address, settings, on: loop)
    }

    package func fetch(
        _ reply: @escaping @Sendable (Result<(keys: TokenKeys, maxAgeSeconds: Int?), TokenKeyFailure>) -> Void
    ) {
        guard let issuers else { return fetchSet(client, reply) }
        get(client) { [self] result in
            switch result {
            case .failure(let failure): reply(.failure(failure))
            case .success(let answer):
                do throws(TokenKeyFailure) {
                    fetchSet(try setClient(discovered: answer.body, issuers), reply)
                } catch {
                    reply(.failure(error))
                }
            }
        }
    }

    private func fetchSet(
        _ client: HTTPClient, _ reply: @escaping @Sendable (Result<(keys: TokenKeys, maxAgeSeconds: Int?), TokenKeyFailure>) -> Void
    ) {
        get(client) { result in
            switch result {
            case .failure(let failure): reply(.failure(failure))
            case .success(let answer):
                do throws(TokenKeyError) {
                    let keys = try TokenKeys(reading: answer.body, allowsSecrets: false)
                    reply(.success((keys, Self.maxAgeSeconds(answer.fields))))
                } catch {
                    reply(.failure(Self.failure(client, "what it gives \(error)")))
                }
            }
        }
    }

    private func get(_ client: HTTPClient, _ reply: @escaping @Sendable (Result<HTTPAnswer, TokenKeyFailure>) -> Void) {
        let question = HTTPQuestion(
            .get, client.address.target, fields: [.init("Accept", "application/json, application/jwk-set+json")])
        client.ask(question) { result in
            switch result {
            case .failure(let failure): reply(.failure(Self.failure(client, "it \(failure)")))
            case .success(let answer) where answer.status.rawValue == 200: reply(.success(answer))
            case .success(let answer): reply(.failure(Self.failure(client, "it answers \(answer.status)")))
            }
        }
    }

    private static func failure(_ client: HTTPClient, _ words: String) -> TokenKeyFailure {
        TokenKeyFailure("cannot fetch keys from \(client.address): \(words)")
    }

    /// The client of the set that an issuer's configuration names. OpenID Connect Discovery 1.0, section 4.3.
    private func setClient(discovered body: [UInt8], _ issuers: [String]) throws(TokenKeyFailure) -> HTTPClient {
        let configuration = try? JSONValue(reading: body, bytesMax: Limits.keyAnswerBytesMax).object
        guard let configuration, let issuer = configuration["issuer"]?.string, let url = configuration["jwks_uri"]?.string else {
            throw Self.failure(client, "what it gives is no JSON with issuer and jwks_uri")
        }
        // Whoever answers there speaks for itself, and for nobody else.
        guard issuers.contains(where: { $0.utf8.elementsEqual(issuer.utf8) }) else {
            throw Self.failure(client, "it is the issuer \(StrangersText.shown(issuer)), which martlet_jwt_issuer does not name")
        }
        if let known = found.withLock({ $0 }), known.url == url { return known.client }
        let address: HTTPAddress
        do throws(HTTPAddressError) {
            address = try HTTPAddress(url: url)
        } catch {
            throw Self.failure(client, "its jwks_uri \(error)")
        }
        guard address.usesTLS || !client.address.usesTLS else { throw Self.failure(client, "its jwks_uri is not https") }
        do throws(TLSFailure) {
            var settings = settings
            settings.tls?.serverName = address.host
            let made = try HTTPClient(to: address, settings, on: loop)
            found.withLock { $0 = (url, made) }
            return made
        } catch {
            throw Self.failure(client, "\(error)")
        }
    }

    /// `max-age` of Cache-Control; 0 where it may not be kept.
    static func maxAgeSeconds(_ fields: HTTPFields) -> Int? {
        var seconds: Int?
        for directive in fields.list("Cache-Control") {
            let parts = directive.utf8.split(separator: UInt8(ascii: "="), maxSplits: 1).map { String(decoding: $0, as: UTF8.self) }
            guard let name = parts.first?.lowercased() else { continue }
            if name == "no-store" || name == "no-cache" { return 0 }
            if name == "max-age", parts.count == 2, let value = Int(parts[1]), value >= 0 { seconds = value }
        }
        return seconds
    }
}

/// What others have written, in lines of the log.
enum StrangersText {
    /// A stranger's text in quotes, as JSON writes it, cut: for the log.
    static func shown(_ text: String) -> String {
        var writer = JSONWriter()
        writer.add(String(String.UnicodeScalarView(text.unicodeScalars.prefix(Limits.shownTextMax))))
        return String(decoding: writer.bytes, as: UTF8.self)
    }
}

extension Limits {
    /// Logins that wait for keys to be fetched; further ones are judged with the keys that are there. Bytes: 20,000
    /// each, a token and what belongs to it.
    static let tokensWaitingMax = 1000

    /// Milliseconds between two fetches of keys: tokens with made-up names of keys cost their issuer no more.
    static let keyPauseMilliseconds: UInt64 = 10_000

    /// Seconds after which keys are fetched again, if their server does not say when.
    static let keyAgeSeconds = 300

    /// The same at least, whatever their server says.
    static let keyAgeSecondsMin = 60

    /// The same at most, in seconds: a key that was withdrawn is gone after a day. A server that says more is not
    /// heeded.
    static let keyAgeSecondsMax = 86_400

    /// Milliseconds for which keys are used that cannot be fetched any more: a day. After that they count as withdrawn.
    static let staleKeyMilliseconds: UInt64 = 86_400_000

    /// Bytes of a key set, and of an issuer's configuration; more are a failure.
    static let keyAnswerBytesMax = 1 << 20

    /// Characters of a stranger's text in a line of the log; a longer one is cut. Bytes: 4 each.
    static let shownTextMax = 64
}
