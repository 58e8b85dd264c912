internal import BrokerModel
internal import MQTTCodec
internal import Platform
internal import Synchronization

/// Remembers what a source of logins has answered, so that a client that comes again soon is not asked for twice.
///
/// An answer is remembered by a keyed hash of the memory, the source, the user name, the password, the Client
/// Identifier, the address and the certificate's names: nobody finds passwords in it, and its keys mean nothing in
/// another process. Bounded in bytes; beyond them the oldest answers go. Shared by all sources and listeners; for any
/// thread.
public final class LoginCache: Sendable {
    /// How long answers hold.
    public struct Terms: Sendable, Equatable {
        /// Seconds that an answer is given again; 0 for never.
        public var seconds: UInt64
        /// As many seconds more or less, by chance: who came at the same time is not asked for at the same time again.
        public var jitterSeconds: UInt64
        /// Seconds for which an answer that has let a client in is given while the source cannot be asked; 0 for never.
        public var staleSeconds: UInt64

        public init(seconds: UInt64, jitterSeconds: UInt64 = 0, staleSeconds: UInt64 = 0) {
            (self.seconds, self.jitterSeconds, self.staleSeconds) = (seconds, jitterSeconds, staleSeconds)
        }

        /// Whether nothing is remembered.
        public var isOff: Bool { seconds == 0 && staleSeconds == 0 }
    }

    struct Key: Hashable, Sendable { let digest: [UInt8] }

    private struct Entry {
        let answer: LoginAnswer
        /// In milliseconds: until when it is given, and until when if the source cannot be asked.
        let freshUntil: UInt64
        let staleUntil: UInt64
        let bytes: Int
        let number: UInt64
    }

    private struct State {
        var entries: [Key: Entry] = [:]
        /// In the order in which they came, with those that were replaced since, and from `first` on.
        var order: [(key: Key, number: UInt64)] = []
        var first = 0
        var bytes = 0
        var lastNumber: UInt64 = 0
    }

    private let secret: [UInt8]
    private let bytesMax: Int
    private let state = Locked(State())

    /// - Parameter bytesMax: of all answers together.
    public init(bytesMax: Int = LoginCache.bytesMaxUsual) {
        self.bytesMax = bytesMax
        secret = [UInt8](unsafeUninitializedCapacity: 32) { buffer, count in
            RandomBytes.fill(UnsafeMutableRawBufferPointer(buffer))
            count = buffer.count
        }
    }

    public static let bytesMaxUsual = Limits.loginCacheBytesMax

    /// Bytes that it takes, as it counts them.
    public var byteCount: Int { state.withLock { $0.bytes } }
    public var count: Int { state.withLock { $0.entries.count } }

    /// How many places the order of arrival has, with those of answers that were replaced since.
    var queueCount: Int { state.withLock { $0.order.count } }

    func key(_ source: String, _ question: LoginQuestion) -> Key {
        // All that any source asks with: who differs in one of them may get another answer.
        let info = question.info
        let parts: [[UInt8]?] = [
            Array(source.utf8), question.userName?.bytes, question.password, question.clientIdentifier.bytes,
            Array(info.address.utf8), info.certificateCommonName.map { Array($0.utf8) },
            info.certificateSubject.map { Array($0.utf8) },
        ]
        var text: [UInt8] = []
        for part in parts {
            // A value that is missing is no empty one.
            text.append(part == nil ? 0 : 1)
            withUnsafeBytes(of: UInt32(truncatingIfNeeded: part?.count ?? 0)) { text += $0 }
            text += part ?? []
        }
        return Key(digest: HashFunction.sha256.authenticationCode(text, key: secret))
    }

    /// - Parameters:
    ///   - isStale: whether the source cannot be asked.
    ///   - now: in milliseconds.
    func answer(_ key: Key, isStale: Bool = false, now: UInt64) -> LoginAnswer? {
        state.withLock { state in
            guard let entry = state.entries[key], now < (isStale ? entry.staleUntil : entry.freshUntil) else { return nil }
            return entry.answer
        }
    }

    /// Remembers what a source has said for certain, and forgets what it has said before.
    ///
    /// - Parameters:
    ///   - answer: of these, what allows and what refuses is remembered.
    ///   - now: in milliseconds.
    ///   - wallMilliseconds: since 1970: no answer is remembered beyond the end of its login.
    func remember(_ answer: LoginAnswer, _ key: Key, _ terms: Terms, now: UInt64, wallMilliseconds: UInt64) {
        var life = UInt64.max
        var isAllowed = false
        switch answer {
        case .allowed(_, let grant):
            guard !grant.isProvisional else { return }
            isAllowed = true
            if let end = grant.expiresAt { life = end > wallMilliseconds ? end - wallMilliseconds : 0 }
        case .refused, .next: break
        case .failed, .busy: return
        }
        let jitter = terms.jitterSeconds > 0 ? RandomBytes.seed() % (2 * terms.jitterSeconds * 1000 + 1) : 0
        let fresh = terms.seconds == 0 ? 0 : max(0, terms.seconds * 1000 + jitter - min(terms.jitterSeconds, terms.seconds) * 1000)
        let stale = isAllowed ? terms.staleSeconds * 1000 : 0
        let bytes = Limits.loginCacheEntryBytes + Self.bytes(of: answer)
        let isKept = min(max(fresh, stale), life) > 0 && bytes <= bytesMax
        state.withLock { state in
            // Who is not let in any more is not let in by what was said before either.
            if let before = state.entries.removeValue(forKey: key) { state.bytes -= before.bytes }
            guard isKept else { return }
            state.lastNumber += 1
            state.entries[key] = Entry(
                answer: answer, freshUntil: now + min(fresh, life), staleUntil: now + min(stale, life), bytes: bytes,
                number: state.lastNumber)
            state.order.append((key, state.lastNumber))
            state.bytes += bytes
            while state.bytes > bytesMax { Self.dropOldest(&state) }
            if state.order.count > 2 * state.entries.count + Limits.spareLoginCacheSlots {
                state.order = state.order[state.first...].filter { state.entries[$0.key]?.number == $0.number }
                state.first = 0
            }
        }
    }

    /// Forgets all: after a change of who may come in.
    public func clear() { state.withLock { $0 = State() } }

    private static func dropOldest(_ state: inout State) {
        guard state.first < state.order.count else { return }
        let (key, number) = state.order[state.first]
        state.first += 1
        // One that was replaced since stands further behind.
        guard let entry = state.entries[key], entry.number == number else { return }
        state.entries[key] = nil
        state.bytes -= entry.bytes
    }

    /// What the answer takes beyond the entry.
    private static func bytes(of answer: LoginAnswer) -> Int {
        guard case .allowed(let userName, let grant) = answer else { return 0 }
        let rules = (grant.rights?.roles ?? []).reduce(0) { $0 + $1.byteCount }
        return (userName?.bytes.count ?? 0) + rules
            + grant.attributes.reduce(0) { $0 + $1.name.utf8.count + $1.value.utf8.count + 32 }
    }
}

/// How the answers of sources are remembered. Each one that is made gives its own answers alone, so that nobody is let
/// in by a service that the listener does not ask, also not by one that it asked before a reload.
public struct LoginMemory: Sendable {
    private let cache: LoginCache
    private let terms: LoginCache.Terms
    private let number: UInt64

    private static let lastNumber = Atomic<UInt64>(0)

    /// - Parameters:
    ///   - cache: of all sources.
    ///   - terms: how long this one's answers hold.
    public init(_ cache: LoginCache, _ terms: LoginCache.Terms) {
        (self.cache, self.terms) = (cache, terms)
        number = Self.lastNumber.wrappingAdd(1, ordering: .relaxed).newValue
    }

    func slot(_ name: String, _ question: LoginQuestion) -> Slot {
        Slot(cache: cache, key: cache.key("\(number) \(name)", question), terms: terms)
    }

    /// Where the answer to one question is remembered.
    struct Slot: Sendable {
        fileprivate let cache: LoginCache
        fileprivate let key: LoginCache.Key
        fileprivate let terms: LoginCache.Terms

        /// - Parameter isStale: whether the source cannot be asked.
        func answer(isStale: Bool = false) -> LoginAnswer? {
            cache.answer(key, isStale: isStale, now: MonotonicClock.milliseconds())
        }

        func remember(_ answer: LoginAnswer) {
            let now = MonotonicClock.milliseconds()
            cache.remember(answer, key, terms, now: now, wallMilliseconds: now &+ WallClock.offsetMilliseconds())
        }
    }
}

extension Limits {
    /// Bytes of answers of login sources that are remembered; beyond them the oldest ones go.
    public static let loginCacheBytesMax = 16 << 20

    /// Bytes that an answer takes in the tables, without what it carries.
    static let loginCacheEntryBytes = 320

    /// Slots of replaced answers that the order of arrival has beyond twice the answers; with more it is written anew.
    static let spareLoginCacheSlots = 1024
}
