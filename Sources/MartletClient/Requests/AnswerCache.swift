internal import ClientCore
internal import ClientStore
internal import Platform

extension AnswerCache {
    /// When an answer that is kept is given instead of asking: the words of HTTP's caches (RFC 9111, RFC 5861).
    public struct Policy: Hashable, Sendable {
        /// A younger answer is returned, and nobody is asked.
        public var maxAge: Duration
        /// One that is older by less than this is returned at once, and asked for anew behind it.
        public var staleWhileRevalidate: Duration
        /// One that is older by less than this is returned where asking ends without an answer: offline, nobody there,
        /// too late.
        public var staleIfError: Duration

        /// Times count from when the responder gave the answer; without any the responder is always asked.
        public init(maxAge: Duration = .zero, staleWhileRevalidate: Duration = .zero, staleIfError: Duration = .zero) {
            (self.maxAge, self.staleWhileRevalidate, self.staleIfError) = (maxAge, staleWhileRevalidate, staleIfError)
        }

        /// Always asks, and keeps the answer.
        public static let reload = Policy()
    }
}

/// A response, from the responder or from an `AnswerCache`.
public struct CachedResponse<Value: Sendable>: Sendable {
    /// The response.
    public let value: Value
    /// How long ago the responder gave it; zero for one that came now.
    public let age: Duration
    /// Whether it is older than the policy's `maxAge`: it is being asked for anew, or that has failed.
    public let isStale: Bool

    /// A response of that age, for doubles of tests.
    public init(value: Value, age: Duration, isStale: Bool) { (self.value, self.age, self.isStale) = (value, age, isStale) }
}

extension CachedResponse: Equatable where Value: Equatable {}

/// Requests whose answers are kept: fetched, stored or updated here, and returned. A `Client` with a store keeps them
/// there, through restarts.
///
/// ```swift
/// let client = try Client(settings)
/// let users = client.answerCache(scope: "anna")
/// let policy = AnswerCache.Policy(maxAge: .seconds(60), staleIfError: .seconds(86_400))
/// let user = try await users.send(GetUser(id: 7), policy)
/// show(user.value, grey: user.isStale)
/// ```
/// A client keeps the latest 1000 answers of together 8 MiB, all scopes together; those that were stored longest ago go
/// first. Requests are the same where their topic and their bytes are.
public final class AnswerCache: Sendable {
    /// The user or account that the answers belong to: answers of one scope are forgotten together.
    public let scope: String
    private let client: any RequestClient
    private let answers: StoredAnswers
    /// The requests that are sent again while an older answer is given: each once at a time.
    private let refreshing = Locked<Set<AnswerTable.Key>>([])

    init(_ client: any RequestClient, _ answers: StoredAnswers, scope: String) {
        (self.client, self.answers, self.scope) = (client, answers, scope)
    }

    /// In memory, for any client: a `StubClient`, or one of a program's own.
    ///
    /// - `now`: the time since 1970-01-01 00:00 UTC by which answers get old; nil for the machine's.
    public convenience init(_ client: any RequestClient, scope: String = "", now: (@Sendable () -> Duration)? = nil) {
        self.init(client, StoredAnswers(now: { now.map { $0().milliseconds } ?? WallClock.milliseconds() }) { _ in }, scope: scope)
    }

    /// Returns the answer that is kept, as far as the policy goes, or asks and keeps what comes. What the responder
    /// answers instead of a response is thrown, and not kept.
    public func send<Asked: Request>(
        _ request: Asked, to topic: CallTopic<Asked> = CallTopic(), _ policy: Policy, timeout: Duration = .seconds(30)
    ) async throws(RequestError<Asked.Failure>) -> CachedResponse<Asked.Response> {
        let key: AnswerTable.Key
        do throws(ClientError) { key = try self.key(request, topic) } catch { throw .client(error) }
        let kept = kept(key, Asked.self, policy)
        if let kept, !kept.isStale { return kept }
        if let kept, kept.age < policy.maxAge + policy.staleWhileRevalidate {
            refresh(key, request, topic, timeout)
            return kept
        }
        do throws(RequestError<Asked.Failure>) {
            return CachedResponse(value: try await ask(key, request, topic, timeout), age: .zero, isStale: false)
        } catch {
            guard let kept, kept.age < policy.maxAge + policy.staleIfError, case .client(let cause) = error, cause != .cancelled
            else { throw error }
            return kept
        }
    }

    /// The answer that is kept, if there is one that the policy lets be shown, then, unless it is young enough, what
    /// the responder answers. Ends after that; throws `RequestError` where there is none.
    public func responses<Asked: Request>(
        to request: Asked, at topic: CallTopic<Asked> = CallTopic(), _ policy: Policy, timeout: Duration = .seconds(30)
    ) -> AsyncThrowingStream<CachedResponse<Asked.Response>, any Error> {
        AsyncThrowingStream { continuation in
            let task = Task {
                do throws(RequestError<Asked.Failure>) {
                    let key: AnswerTable.Key
                    do throws(ClientError) { key = try self.key(request, topic) } catch { throw .client(error) }
                    let oldest = policy.maxAge + max(policy.staleWhileRevalidate, policy.staleIfError)
                    if let kept = kept(key, Asked.self, policy), kept.age < oldest {
                        continuation.yield(kept)
                        if !kept.isStale { return continuation.finish() }
                    }
                    let response = try await ask(key, request, topic, timeout)
                    continuation.yield(CachedResponse(value: response, age: .zero, isStale: false))
                    continuation.finish()
                } catch {
                    continuation.finish(throwing: error)
                }
            }
            continuation.onTermination = { _ in task.cancel() }
        }
    }

    /// The answer that is kept, however old; nil without one, or where it can no longer be read.
    public func response<Asked: Request>(to request: Asked, at topic: CallTopic<Asked> = CallTopic()) -> CachedResponse<
        Asked.Response
    >? {
        guard let key = try? key(request, topic) else { return nil }
        return kept(key, Asked.self, .reload)
    }

    /// Keeps a response as if the responder had given it now: what the program has changed and knows. Throws
    /// `ClientError.unencodable` and `ClientError.topic`.
    public func update<Asked: Request>(
        _ response: Asked.Response, to request: Asked, at topic: CallTopic<Asked> = CallTopic()
    ) throws(ClientError) {
        answers.put(try key(request, topic), try Asked.responseCoding.encode(response))
    }

    /// Forgets the answer to a request.
    public func remove<Asked: Request>(_ request: Asked, at topic: CallTopic<Asked> = CallTopic()) {
        if let key = try? key(request, topic) { answers.remove(key) }
    }

    /// Forgets all answers of the scope.
    public func removeAll() { answers.removeAll(scope: scope) }

    private func key<Asked: Request>(_ request: Asked, _ topic: CallTopic<Asked>) throws(ClientError) -> AnswerTable.Key {
        AnswerTable.Key(scope: scope, topic: try topic.name, request: try Asked.coding.encode(request))
    }

    private func kept<Asked: Request>(
        _ key: AnswerTable.Key, _ type: Asked.Type, _ policy: Policy
    ) -> CachedResponse<Asked.Response>? {
        guard let (payload, age) = answers.answer(key), let value = try? Asked.responseCoding.decode(payload, contentType: nil)
        else { return nil }
        return CachedResponse(value: value, age: age, isStale: age >= policy.maxAge)
    }

    private func ask<Asked: Request>(
        _ key: AnswerTable.Key, _ request: Asked, _ topic: CallTopic<Asked>, _ timeout: Duration
    ) async throws(RequestError<Asked.Failure>) -> Asked.Response {
        let response = try await client.send(request, to: topic, timeout: timeout)
        // What cannot be written is not kept, and is an answer all the same.
        if let payload = try? Asked.responseCoding.encode(response) { answers.put(key, payload) }
        return response
    }

    private func refresh<Asked: Request>(
        _ key: AnswerTable.Key, _ request: Asked, _ topic: CallTopic<Asked>, _ timeout: Duration
    ) {
        guard refreshing.withLock({ $0.insert(key).inserted }) else { return }
        Task {
            _ = try? await ask(key, request, topic, timeout)
            _ = refreshing.withLock { $0.remove(key) }
        }
    }
}

extension Client {
    /// Requests of this client whose answers are kept, in its store where it has one: all that name the same scope, a
    /// user of the program for example, have the same answers.
    public func answerCache(scope: String = "") -> AnswerCache { AnswerCache(self, answers, scope: scope) }
}

/// The answers of a client, in memory and in its store. Any thread may call.
final class StoredAnswers: Sendable {
    private let table: Locked<AnswerTable>
    private let now: @Sendable () -> UInt64
    private let commit: @Sendable ([StoreChange]) -> Void

    /// - `now`: milliseconds since 1970.
    /// - `commit`: writes what changes, soon.
    init(
        _ rows: [AnswerRow] = [], now: @escaping @Sendable () -> UInt64,
        commit: @escaping @Sendable ([StoreChange]) -> Void = { _ in }
    ) {
        var table = AnswerTable(countMax: Limits.keptAnswersMax, bytesMax: Limits.keptAnswerBytesMax)
        for row in rows.sorted(by: { $0.answer.storedAt < $1.answer.storedAt }) { _ = table.put(row.key, row.answer) }
        (self.table, self.now, self.commit) = (Locked(table), now, commit)
    }

    /// The answer and its age.
    func answer(_ key: AnswerTable.Key) -> (Payload, Duration)? {
        guard let answer = table.withLock({ $0.answer(key) }) else { return nil }
        let time = now()
        // A clock that was set back makes no answer young for longer.
        return (answer.payload, .milliseconds(Int64(clamping: time < answer.storedAt ? .max : time - answer.storedAt)))
    }

    func put(_ key: AnswerTable.Key, _ payload: Payload) {
        let answer = AnswerTable.Answer(payload, storedAt: now())
        table.withLock { table in
            let gone = table.put(key, answer)
            // Handed over under the lock: the store has them in the order in which they were kept.
            commit([AnswerRow(key, answer).put] + gone.map { AnswerRow.remove($0) })
        }
    }

    func remove(_ key: AnswerTable.Key) {
        table.withLock { table in if table.remove(key) { commit([AnswerRow.remove(key)]) } }
    }

    func removeAll(scope: String) {
        table.withLock { table in
            table.removeAll(scope: scope)
            commit([AnswerRow.removeAll(scope: scope)])
        }
    }
}
