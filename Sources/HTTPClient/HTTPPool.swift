internal import HTTP
package import Platform
package import Transports

/// Whoever makes connections to a server. On the loop's thread.
package protocol HTTPConnector: AnyObject {
    /// Begins to connect, with the layers that the address wants.
    ///
    /// - Parameter finished: called once, later or at once, unless it is cancelled.
    /// - Returns: a number to cancel it with.
    func connect(_ finished: @escaping (Result<any ByteChannel, HTTPClientFailure>) -> Void) -> UInt64
    func cancel(_ number: UInt64)
    func advance(now: UInt64)
    var nextDeadline: UInt64? { get }
}

/// The questions to one server, and its connections. Belongs to the loop's thread.
package final class HTTPPool: @unchecked Sendable {
    // Unchecked: it is used on the loop's thread alone, once it is made.
    package typealias Reply = @Sendable (Result<HTTPAnswer, HTTPClientFailure>) -> Void

    /// A question, and those who have asked it.
    final class Call {
        let question: HTTPQuestion
        let deadline: UInt64
        /// Kept as long as they wait: the identifier of one that is gone may be another one's.
        var askers: [(asker: AnyObject, reply: Reply)]
        var connection: HTTPCallConnection?
        var isOver = false
        /// Whether it is not asked yet.
        var isWaiting = false
        /// Whether it is asked again because a kept connection had ended meanwhile.
        var isRepeated = false

        init(_ question: HTTPQuestion, deadline: UInt64, _ asker: AnyObject, _ reply: @escaping Reply) {
            (self.question, self.deadline, askers) = (question, deadline, [(asker, reply)])
        }
    }

    let address: HTTPAddress
    let settings: HTTPClientSettings
    let connector: any HTTPConnector
    let events: EventLoop
    private var calls: [HTTPQuestion: Call] = [:]
    private var callsByAsker: [ObjectIdentifier: Call] = [:]
    /// Those that are not asked yet, and all in the order of their deadlines; both with some that are over.
    private var waiting = CallStack()
    private var deadlines = CallQueue()
    private var hurriedDeadlines = CallQueue()
    private var waitingCount = 0
    private var connections: [HTTPCallConnection] = []
    private var breaker: CircuitBreaker
    private var isRetired = false

    package init(
        _ address: HTTPAddress, _ settings: HTTPClientSettings, connector: any HTTPConnector, on events: EventLoop
    ) {
        (self.address, self.settings, self.connector, self.events) = (address, settings, connector, events)
        breaker = CircuitBreaker(failuresMax: settings.failuresMax, pauseMilliseconds: settings.pauseMilliseconds)
    }

    private var now: UInt64 { events.nowMilliseconds }
    private var inFlightCount: Int { connections.count { $0.call != nil } }
    package var connectionCount: Int { connections.count }
    /// Whether nobody asks any more and nobody waits.
    package var isOver: Bool { isRetired && calls.isEmpty && connections.isEmpty }

    package func ask(_ question: HTTPQuestion, _ asker: AnyObject, reply: @escaping Reply) {
        let id = ObjectIdentifier(asker)
        if let pause = breaker.pause(now: now) {
            return reply(.failure(HTTPClientFailure(.unavailable, "is not asked for \(pause / 1000 + 1) s: \(breaker.lastWords)")))
        }
        if let call = calls[question] {
            call.askers.append((asker, reply))
            callsByAsker[id] = call
            return
        }
        guard waitingCount < settings.queueMax else {
            return reply(.failure(HTTPClientFailure(.busy, "has \(settings.queueMax) questions waiting")))
        }
        let call = Call(question, deadline: now + patience(question.isHurried), asker, reply)
        calls[question] = call
        callsByAsker[id] = call
        enqueue(call)
        if question.isHurried { hurriedDeadlines.append(call) } else { deadlines.append(call) }
        pump()
    }

    package func cancel(_ asker: AnyObject) {
        let id = ObjectIdentifier(asker)
        guard let call = callsByAsker.removeValue(forKey: id) else { return }
        call.askers.removeAll { $0.asker === asker }
        guard call.askers.isEmpty else { return }
        let connection = call.connection
        end(call)
        // Its answer would be taken for the next one's.
        connection?.close()
        pump()
    }

    package func retire() {
        isRetired = true
        for connection in connections where connection.call == nil { connection.close() }
    }

    package var nextDeadline: UInt64? {
        let idle = connections.lazy.compactMap(\.deadline).min()
        return [deadlines.first?.deadline, hurriedDeadlines.first?.deadline, idle, connector.nextDeadline].compactMap { $0 }.min()
    }

    package func advance(now: UInt64) {
        connector.advance(now: now)
        for connection in connections { if let deadline = connection.deadline, deadline <= now { connection.timedOut() } }
        while let call = hurriedDeadlines.first, call.deadline <= now {
            hurriedDeadlines.removeFirst()
            expire(call)
        }
        while let call = deadlines.first, call.deadline <= now {
            deadlines.removeFirst()
            expire(call)
        }
        pump()
    }

    private func patience(_ isHurried: Bool) -> UInt64 { isHurried ? settings.hurriedMilliseconds : settings.answerMilliseconds }

    private func expire(_ call: Call) {
        let seconds = Self.seconds(patience(call.question.isHurried))
        // One that was never asked says nothing against the server: whoever asks a lot would keep it from all others.
        let wasAsked = call.connection != nil
        let words = wasAsked ? "does not answer within \(seconds)" : "has not come to this question within \(seconds)"
        fail(call, HTTPClientFailure(.unavailable, words), isCounted: wasAsked && !call.question.isHurried)
    }

    private static func seconds(_ milliseconds: UInt64) -> String {
        milliseconds % 1000 == 0 ? "\(milliseconds / 1000) s" : "\(milliseconds) ms"
    }

    private func enqueue(_ call: Call) {
        call.isWaiting = true
        waitingCount += 1
        waiting.append(call, waitingCount: waitingCount)
    }

    private func takeWaiting() -> Call? {
        guard waitingCount > 0, let call = waiting.popLast() else { return nil }
        call.isWaiting = false
        waitingCount -= 1
        return call
    }

    /// Asks what waits, as far as there is room.
    private func pump() {
        // After a pause one question shows whether the server is there again.
        let room = breaker.isTrying ? 1 : settings.inFlightMax
        while waitingCount > 0, inFlightCount < room, let call = takeWaiting() {
            if let idle = connections.first(where: { $0.call == nil }) {
                idle.ask(call)
            } else {
                let connection = HTTPCallConnection(self)
                connections.append(connection)
                connection.open(for: call)
            }
        }
    }

    // MARK: What connections tell

    func answered(_ call: Call, _ answer: HTTPAnswer) {
        finish(call, .success(answer))
        if answer.status.rawValue >= 500 {
            failed("it answers \(answer.status)")
        } else {
            breaker.succeeded()
        }
        pump()
    }

    /// No answer has come, or none that can be taken.
    func failed(_ call: Call, _ failure: HTTPClientFailure) {
        fail(call, failure)
        pump()
    }

    /// A kept connection had ended before it took the question.
    func wasNotTaken(_ call: Call) {
        guard !call.isOver, !call.isRepeated else {
            return failed(call, HTTPClientFailure(.unavailable, "closes the connection without an answer"))
        }
        call.isRepeated = true
        call.connection = nil
        // All that are kept are likely to have ended with it.
        for connection in connections where connection.call == nil { connection.close() }
        enqueue(call)
        pump()
    }

    func closed(_ connection: HTTPCallConnection) { connections.removeAll { $0 === connection } }

    /// Whether a connection is worth keeping.
    var keepsConnections: Bool { !isRetired }

    /// - Parameter isCounted: whether the server is to blame.
    private func fail(_ call: Call, _ failure: HTTPClientFailure, isCounted: Bool = true) {
        guard !call.isOver else { return }
        let connection = call.connection
        finish(call, .failure(failure))
        connection?.close()
        if isCounted { failed("it \(failure)") }
    }

    private func failed(_ words: String) {
        guard breaker.failed(words, now: now) else { return }
        // Those that wait would wait in vain.
        let failure = HTTPClientFailure(.unavailable, "is not asked for \(settings.pauseMilliseconds / 1000) s: \(words)")
        while let call = takeWaiting() { finish(call, .failure(failure)) }
    }

    private func finish(_ call: Call, _ result: Result<HTTPAnswer, HTTPClientFailure>) {
        guard !call.isOver else { return }
        let askers = call.askers
        end(call)
        for asker in askers { asker.reply(result) }
    }

    /// Takes a question out of all tables.
    private func end(_ call: Call) {
        guard !call.isOver else { return }
        call.isOver = true
        if call.isWaiting { waitingCount -= 1 }
        for asker in call.askers { callsByAsker[ObjectIdentifier(asker.asker)] = nil }
        call.askers = []
        if calls[call.question] === call { calls[call.question] = nil }
        call.connection = nil
    }
}

/// Questions in the order in which they came; those that are over are passed over.
private struct CallQueue {
    private var calls: [HTTPPool.Call] = []
    private var head = 0

    mutating func append(_ call: HTTPPool.Call) { calls.append(call) }

    var first: HTTPPool.Call? {
        mutating get {
            while head < calls.count, calls[head].isOver { head += 1 }
            shorten()
            return head < calls.count ? calls[head] : nil
        }
    }

    mutating func removeFirst() {
        head += 1
        shorten()
    }

    private mutating func shorten() {
        guard head > 512, head > calls.count / 2 else { return }
        calls.removeFirst(head)
        head = 0
    }
}

/// Questions that wait, the last one to come first; those that are over are passed over.
///
/// When more come than a server can answer in time, some wait in vain in any order. In this one those are answered who
/// come now, and a crowd that came before them does not keep them out.
private struct CallStack {
    private var calls: [HTTPPool.Call] = []

    /// - Parameter waitingCount: how many of all wait still, this one among them.
    mutating func append(_ call: HTTPPool.Call, waitingCount: Int) {
        if calls.count > 2 * waitingCount + 512 { calls.removeAll { $0.isOver } }
        calls.append(call)
    }

    mutating func popLast() -> HTTPPool.Call? {
        while let call = calls.popLast() { if !call.isOver { return call } }
        return nil
    }
}

/// Keeps questions from a server that fails: after so many failures in a row nobody asks it for a while, then one does.
///
///     closed ── failuresMax in a row ─► open ── the pause is over ─► trying ── an answer ─► closed
///                                         ▲────────── a failure ──────┘
package struct CircuitBreaker {
    private let failuresMax: Int
    private let pauseMilliseconds: UInt64
    private var failures = 0
    private var openUntil: UInt64?
    /// What was wrong last, as words.
    package private(set) var lastWords = ""

    package init(failuresMax: Int, pauseMilliseconds: UInt64) {
        (self.failuresMax, self.pauseMilliseconds) = (max(1, failuresMax), pauseMilliseconds)
    }

    /// Whether the next answer tells if the server is there again.
    package var isTrying: Bool { failures >= failuresMax }

    /// Milliseconds for which nobody is to ask; nil if somebody may.
    package func pause(now: UInt64) -> UInt64? { openUntil.flatMap { now < $0 ? $0 - now : nil } }

    package mutating func succeeded() { (failures, openUntil) = (0, nil) }

    /// - Returns: whether nobody is to ask from now on.
    package mutating func failed(_ words: String, now: UInt64) -> Bool {
        failures = min(failures + 1, failuresMax)
        lastWords = words
        guard failures >= failuresMax else { return false }
        openUntil = now + pauseMilliseconds
        return true
    }
}

/// One connection to a server, which asks one question at a time. Belongs to the loop's thread.
final class HTTPCallConnection: StreamOwner {
    private unowned let pool: HTTPPool
    private(set) var call: HTTPPool.Call?
    private var attempt: UInt64?
    private var stream: DialledStream?
    private var reader: HTTPResponseReader?
    private var head: HTTPResponseHead?
    private var body: [UInt8] = []
    /// Whether it has brought an answer before.
    private var isKept = false
    private var hasBytes = false
    private var isClosed = false
    /// When it has to stand, or goes because nobody needs it.
    private(set) var deadline: UInt64?

    init(_ pool: HTTPPool) { self.pool = pool }

    var room: UnsafeMutableRawBufferPointer { pool.events.scratch }
    var isPaused: Bool { false }

    private var now: UInt64 { pool.events.nowMilliseconds }

    func open(for call: HTTPPool.Call) {
        self.call = call
        call.connection = self
        deadline = now + pool.settings.connectMilliseconds
        attempt = pool.connector.connect { [unowned self] result in
            attempt = nil
            guard !isClosed else {
                if case .success(let channel) = result { channel.close() }
                return
            }
            switch result {
            case .success(let channel): connected(channel)
            case .failure(let failure): fail(failure)
            }
        }
        // It may be over already.
        if stream != nil || isClosed { attempt = nil }
    }

    private func connected(_ channel: any ByteChannel) {
        do throws(SystemError) {
            stream = try DialledStream(channel, on: pool.events, for: self)
        } catch {
            channel.close()
            return fail(HTTPClientFailure(.unavailable, "cannot be reached: \(error.reason)"))
        }
        deadline = nil
        if let call { ask(call) }
    }

    func ask(_ call: HTTPPool.Call) {
        self.call = call
        call.connection = self
        deadline = nil
        (reader, head, body, hasBytes) = (
            HTTPResponseReader(to: call.question.method, bodyBytesMax: pool.settings.bodyBytesMax), nil, [], false
        )
        stream?.send(call.question.bytes(to: pool.address.authority))
    }

    func timedOut() {
        guard call != nil else { return close() }
        fail(HTTPClientFailure(.unavailable, "cannot be reached: no connection within \(pool.settings.connectMilliseconds) ms"))
    }

    // MARK: The stream

    func received(_ bytes: UnsafeRawBufferPointer) {
        // What nobody has asked for.
        guard call != nil, var reader else { return close() }
        hasBytes = true
        self.reader = nil
        reader.append(bytes)
        read(&reader)
        // It may have been asked something else meanwhile.
        if call != nil, self.reader == nil { self.reader = reader }
    }

    private func read(_ reader: inout HTTPResponseReader) {
        do throws(HTTPResponseError) {
            while true {
                switch try reader.next() {
                case .needsMore: return
                case .head(let head):
                    self.head = head
                    if let failure = objection(to: head) { return fail(failure) }
                case .body(let piece): body += piece
                case .end: return complete(isClean: reader.unreadByteCount == 0)
                }
            }
        } catch {
            fail(HTTPClientFailure(.badAnswer, "answers what \(error)"))
        }
    }

    private func objection(to head: HTTPResponseHead) -> HTTPClientFailure? {
        if (300..<400).contains(head.status.rawValue) {
            return HTTPClientFailure(.badAnswer, "answers \(head.status), and redirects are not followed")
        }
        guard !pool.settings.contentTypes.isEmpty, (200..<300).contains(head.status.rawValue), !head.status.hasNoBody,
            head.fields["Content-Length"] != "0"
        else { return nil }
        let type = (head.fields["Content-Type"] ?? "").prefix { $0 != ";" }.filter { $0 != " " }.lowercased()
        if pool.settings.contentTypes.contains(type) { return nil }
        let found = type.isEmpty ? "without a Content-Type" : "with the Content-Type \(TerminalText.line(type, columns: 80))"
        return HTTPClientFailure(
            .badAnswer, "answers \(found); expected \(pool.settings.contentTypes.joined(separator: " or "))")
    }

    private func complete(isClean: Bool) {
        guard let call, let head else { return }
        let answer = HTTPAnswer(status: head.status, fields: head.fields, body: body)
        let isKept = isClean && head.version == .http11 && !head.fields.names("close", in: "Connection") && pool.keepsConnections
        (self.call, reader, self.head, body, self.isKept) = (nil, nil, nil, [], true)
        call.connection = nil
        if isKept { deadline = now + pool.settings.idleMilliseconds } else { close() }
        pool.answered(call, answer)
    }

    func wrote() {}

    func failedToWrite(_ error: SystemError, hasLayers: Bool) {
        // What the server has said last may still be read; then it ends.
        if !hasLayers, !hasBytes { ended(error.reason) }
    }

    func ended(_ reason: String?) {
        guard let call else { return close() }
        if var reader, hasBytes {
            do throws(HTTPResponseError) {
                try reader.finish()
                complete(isClean: false)
            } catch {
                fail(HTTPClientFailure(.badAnswer, "answers what \(error)"))
            }
            return
        }
        if isKept {
            self.call = nil
            close()
            return pool.wasNotTaken(call)
        }
        fail(
            HTTPClientFailure(
                .unavailable, reason.map { "ends the connection: \($0)" } ?? "closes the connection without an answer"))
    }

    private func fail(_ failure: HTTPClientFailure) {
        let call = self.call
        self.call = nil
        close()
        if let call { pool.failed(call, failure) }
    }

    func close() {
        guard !isClosed else { return }
        isClosed = true
        call = nil
        deadline = nil
        if let attempt { pool.connector.cancel(attempt) }
        attempt = nil
        stream?.close()
        stream = nil
        pool.closed(self)
    }
}
