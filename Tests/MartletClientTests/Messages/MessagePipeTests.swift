import ClientCore
import MQTTCodec
import Platform
import Testing

@testable import MartletClient

/// What a pipe says to its source.
final class RecordingSource: MessageSource {
    struct Record: Sendable {
        var acknowledged: [AcknowledgementToken: [ReasonCode]] = [:]
        var order: [AcknowledgementToken] = []
        var resumed = 0
        var closed: [AcknowledgementToken]?
    }

    let record = Locked(Record())

    func acknowledge(_ token: AcknowledgementToken, _ reason: ReasonCode, from pipe: MessagePipe) {
        record.withLock {
            $0.acknowledged[token, default: []].append(reason)
            $0.order.append(token)
        }
    }

    func resume(_ pipe: MessagePipe) { record.withLock { $0.resumed += 1 } }

    func close(_ pipe: MessagePipe, unacknowledged: [AcknowledgementToken]) {
        record.withLock { $0.closed = unacknowledged }
    }
}

@Suite struct MessagePipeTests {
    let source = RecordingSource()

    func pipe(_ backlog: SubscriptionSettings.Backlog = .hold(4), _ acknowledging: SubscriptionSettings.Acknowledging = .whenTaken)
        -> MessagePipe
    {
        MessagePipe(
            filters: ["#"], settings: SubscriptionSettings(backlog: backlog, acknowledging: acknowledging), backlog: backlog,
            source: source)
    }

    func message(_ number: Int, topic: TopicName = "t") -> ReceivedMessage {
        ReceivedMessage(
            topic: topic, payload: Payload("\(number)"), qos: .atLeastOnce, retain: false, duplicate: false,
            token: AcknowledgementToken(number: UInt64(number)))
    }

    @discardableResult
    func send(_ numbers: ClosedRange<Int>, to pipe: MessagePipe) -> Bool {
        for number in numbers { pipe.gather(message(number)) }
        return flush(pipe)
    }

    /// As a source does. Returns whether the pipe is full.
    @discardableResult
    func flush(_ pipe: MessagePipe) -> Bool {
        let (isFull, settled) = pipe.flush()
        for token in settled { source.acknowledge(token, .success, from: pipe) }
        return isFull
    }

    func tokens(_ numbers: [Int]) -> [AcknowledgementToken] { numbers.map { AcknowledgementToken(number: UInt64($0)) } }

    var acknowledged: [AcknowledgementToken] { source.record.value.order }

    @Test func `what is printed of a message is its topic and payload, and of a server where it is and as whom it knows us`() {
        #expect("\(Message(message(3, topic: "home/lamp"), pipe()))" == "home/lamp 3")
        let facts = ServerFacts(
            connectionNumber: 1, address: "mqtt://localhost:1883", version: .v5, isSessionPresent: false, clientIdentifier: "me",
            properties: Properties())
        #expect("\(ConnectionState.online(facts))" == "online(mqtt://localhost:1883 as me)")
    }

    @Test func `a message is acknowledged when the next is asked for`() async throws {
        let pipe = pipe()
        let messages = Messages(pipe)
        send(1...3, to: pipe)
        var iterator = messages.makeAsyncIterator()
        #expect(try await iterator.next()?.payload == "1")
        #expect(acknowledged == [])
        #expect(try await iterator.next()?.payload == "2")
        #expect(acknowledged == tokens([1]))
    }

    @Test func `what an iterator has not taken is there for the next, in order`() async throws {
        let pipe = pipe()
        let messages = Messages(pipe)
        send(1...3, to: pipe)
        for try await message in messages {
            #expect(message.payload == "1")
            break
        }
        send(4...4, to: pipe)
        var payloads: [Payload] = []
        for try await message in messages {
            payloads.append(message.payload)
            if payloads.count == 3 { break }
        }
        #expect(payloads == ["2", "3", "4"])
        #expect(acknowledged == tokens([1, 2, 3, 4]))
    }

    @Test func `a full pipe says so, and when something was taken`() async throws {
        let pipe = pipe(.hold(3))
        #expect(!send(1...2, to: pipe))
        #expect(send(3...5, to: pipe))
        #expect(pipe.take().count == 5)
        #expect(source.record.value.resumed == 1)
        #expect(!send(6...6, to: pipe))
    }

    @Test func `a pipe with much that is not taken is behind long before it is full`() {
        let pipe = pipe(.hold)
        #expect(!send(1...255, to: pipe) && !pipe.isBehind)
        #expect(!send(256...256, to: pipe) && pipe.isBehind)
        #expect(pipe.take().count == 256)
        #expect(source.record.value.resumed == 1)
        #expect(!send(257...257, to: pipe) && !pipe.isBehind)
    }

    /// Of QoS 0.
    func lone(_ number: Int) -> ReceivedMessage {
        ReceivedMessage(
            topic: "t", payload: Payload("\(number)"), qos: .atMostOnce, retain: false, duplicate: false, token: nil)
    }

    @Test func `beyond the bounds of hold messages of QoS 0 are dropped and counted, and those of QoS 1 wait unacknowledged`() {
        let pipe = pipe(.hold(3))
        for number in 1...5 { pipe.gather(lone(number)) }
        #expect(flush(pipe))
        #expect(pipe.droppedAtFlush == 2 && pipe.droppedCount == 2)
        pipe.gather(lone(6))
        for number in 7...9 { pipe.gather(message(number)) }
        #expect(flush(pipe))
        #expect(pipe.droppedAtFlush == 1 && acknowledged == [])
        #expect(pipe.take().compactMap { $0?.payload } == ["1", "2", "3", "7", "8", "9"])
        #expect(source.record.value.resumed == 1)
        pipe.gather(lone(10))
        #expect(!flush(pipe))
        #expect(pipe.droppedAtFlush == 0 && pipe.droppedCount == 3 && pipe.waitingCount == 1)
    }

    @Test func `bytes bound messages of QoS 0 in hold, but for one alone`() {
        let pipe = pipe(.hold(100, bytes: 10))
        var huge = lone(1)
        huge.payload = Payload([UInt8](repeating: 1, count: 99))
        pipe.gather(huge)
        pipe.gather(lone(2))
        #expect(flush(pipe))
        #expect(pipe.waitingCount == 1 && pipe.droppedCount == 1)
        _ = pipe.take()
        for number in 3...8 { pipe.gather(lone(number)) }
        #expect(flush(pipe))
        // Topic and payload have a byte each.
        #expect(pipe.waitingCount == 5 && pipe.droppedCount == 2)
    }

    @Test func `what comes beyond hold is acknowledged when it is taken, also where that is to be at once`() {
        let pipe = pipe(.hold(2), .atOnce)
        send(1...4, to: pipe)
        #expect(acknowledged == tokens([1, 2]))
        #expect(pipe.take().count == 4)
        #expect(acknowledged == tokens([1, 2, 3, 4]))
        send(5...8, to: pipe)
        let receiver = RecordingReceiver()
        pipe.deliver(to: receiver)
        #expect(acknowledged == tokens(Array(1...8)))
    }

    @Test func `what waits from a session that the server has forgotten makes room for what comes in the next`() {
        let pipe = pipe(.hold(2), .whenDone)
        send(1...4, to: pipe)
        pipe.sessionLost()
        send(5...6, to: pipe)
        #expect(pipe.waitingCount == 4 && pipe.droppedCount == 2)
        #expect(acknowledged == tokens([1, 2]))
        pipe.sessionLost()
        send(7...11, to: pipe)
        #expect(pipe.take().compactMap { $0?.payload } == ["7", "8", "9", "10", "11"])
        #expect(pipe.droppedCount == 6)
    }

    @Test func `the oldest is dropped, acknowledged and counted`() async throws {
        let pipe = pipe(.dropOldest(2))
        let messages = Messages(pipe)
        #expect(!send(1...5, to: pipe))
        #expect(acknowledged == tokens([1, 2, 3]))
        #expect(messages.droppedCount == 3)
        var iterator = messages.makeAsyncIterator()
        #expect(try await iterator.next()?.payload == "4")
        // One is in the consumer's hands: two others may wait.
        send(6...7, to: pipe)
        #expect(try await iterator.next()?.payload == "6")
    }

    @Test func `of each topic the latest is kept, at the place of the first`() async throws {
        let pipe = pipe(.latestPerTopic(2))
        let messages = Messages(pipe)
        pipe.gather(message(1, topic: "a"))
        pipe.gather(message(2, topic: "b"))
        pipe.gather(message(3, topic: "a"))
        #expect(!flush(pipe))
        #expect(acknowledged == tokens([1]))
        pipe.gather(message(4, topic: "c"))
        flush(pipe)
        #expect(acknowledged == tokens([1, 3]))
        var iterator = messages.makeAsyncIterator()
        #expect(try await iterator.next()?.payload == "2")
        pipe.gather(message(5, topic: "b"))
        pipe.gather(message(6, topic: "c"))
        flush(pipe)
        #expect(try await iterator.next()?.payload == "6")
        #expect(try await iterator.next()?.payload == "5")
        #expect(messages.droppedCount == 3)
    }

    @Test func `a receiver gets what waits, what comes, and the end, and all is acknowledged at once`() {
        let pipe = pipe(.hold(4), .atOnce)
        let receiver = RecordingReceiver()
        send(1...2, to: pipe)
        pipe.deliver(to: receiver)
        #expect(!send(3...9, to: pipe))
        #expect(receiver.payloads.value == (1...9).map { Payload("\($0)") })
        #expect(acknowledged == tokens(Array(1...9)))
        pipe.end(.timedOut)
        #expect(receiver.end.value == .timedOut)
    }

    @Test func `a receiver that comes after the end is told`() {
        let pipe = pipe(.hold(4), .atOnce)
        pipe.end(nil)
        let receiver = RecordingReceiver()
        pipe.deliver(to: receiver)
        #expect(receiver.end.value == .ended)
    }

    /// 100 bytes.
    func large(_ number: Int, topic: TopicName = "t") -> ReceivedMessage {
        var large = message(number, topic: topic)
        large.payload = Payload([UInt8](repeating: UInt8(number), count: 99))
        return large
    }

    @Test func `a pipe is full by bytes as well, and holds one message of any size`() {
        let pipe = pipe(.hold(100, bytes: 250))
        pipe.gather(large(1))
        pipe.gather(large(2))
        #expect(!flush(pipe))
        pipe.gather(large(3))
        #expect(flush(pipe))
        let taken = pipe.take()
        #expect(taken.count == 3)
        #expect(source.record.value.resumed == 1)
        // What was not used goes back, and counts again.
        pipe.giveBack(taken[1...])
        pipe.gather(large(4))
        #expect(flush(pipe))
        #expect(pipe.waitingCount == 3)
    }

    @Test func `the oldest is dropped by bytes as well, but for the last`() {
        let pipe = pipe(.dropOldest(100, bytes: 250))
        for number in 1...3 { pipe.gather(large(number)) }
        flush(pipe)
        #expect(acknowledged == tokens([1]))
        var huge = large(4)
        huge.payload = Payload([UInt8](repeating: 0, count: 1000))
        pipe.gather(huge)
        flush(pipe)
        #expect(acknowledged == tokens([1, 2, 3]))
        #expect(pipe.waitingCount == 1)
        #expect(pipe.droppedCount == 3)
    }

    @Test func `of each topic the latest is kept as far as its bytes go`() {
        let pipe = pipe(.latestPerTopic(100, bytes: 250))
        pipe.gather(large(1, topic: "a"))
        pipe.gather(large(2, topic: "b"))
        pipe.gather(large(3, topic: "a"))
        flush(pipe)
        #expect(acknowledged == tokens([1]))
        pipe.gather(large(4, topic: "c"))
        flush(pipe)
        #expect(acknowledged == tokens([1, 3]))
        #expect(pipe.waitingCount == 2)
    }

    @Test func `a source that had no room for all hears of every room, also of what was made while it looked`() {
        let pipe = pipe(.spill)
        pipe.hasMoreBehind = true
        send(1...3, to: pipe)
        #expect(pipe.take().count == 3)
        #expect(source.record.value.resumed == 1)
        pipe.hasMoreBehind = false
        send(4...4, to: pipe)
        #expect(pipe.take().count == 1)
        #expect(source.record.value.resumed == 1)
    }

    @Test func `done and refuse count once, in any order`() async throws {
        let pipe = pipe(.hold(10), .whenDone)
        let messages = Messages(pipe)
        send(1...3, to: pipe)
        var iterator = messages.makeAsyncIterator()
        let (first, second) = (try await iterator.next(), try await iterator.next())
        second?.refuse(.implementationSpecificError)
        second?.done()
        first?.done()
        first?.done()
        #expect(source.record.value.acknowledged[tokens([2])[0]] == [.implementationSpecificError])
        #expect(acknowledged == tokens([2, 1]))
    }

    @Test func `at once means before anybody has it`() {
        let pipe = pipe(.hold(10), .atOnce)
        send(1...2, to: pipe)
        #expect(acknowledged == tokens([1, 2]))
    }

    @Test func `who leaves gives back what was not acknowledged`() async throws {
        let pipe = pipe(.hold(10), .whenDone)
        var messages: Messages? = Messages(pipe)
        send(1...3, to: pipe)
        var iterator = messages?.makeAsyncIterator()
        let first = try await iterator?.next()
        messages = nil
        #expect(source.record.value.closed == nil)
        iterator = nil
        #expect(Set(source.record.value.closed ?? []) == Set(tokens([1, 2, 3])))
        // It is over: the source has settled it.
        first?.done()
        #expect(acknowledged == [])
    }

    @Test func `a task that is cancelled while it waits ends the subscription`() async throws {
        let pipe = pipe()
        let messages = Messages(pipe)
        let task = Task { for try await _ in messages {} }
        task.cancel()
        try await task.value
        #expect(source.record.value.closed == [])
        _ = messages
    }

    @Test func `what comes between the consumer's leave and the source's hearing of it is acknowledged`() {
        let pipe = pipe()
        send(1...1, to: pipe)
        pipe.close()
        #expect(source.record.value.closed == tokens([1]))
        send(2...3, to: pipe)
        #expect(acknowledged == tokens([2, 3]))
    }

    @Test func `what waited when the subscription was refused is acknowledged when it is taken, or its consumer leaves`()
        async throws
    {
        let pipe = pipe()
        var messages: Messages? = Messages(pipe)
        send(1...3, to: pipe)
        pipe.end(.refused(.notAuthorized))
        var iterator = messages?.makeAsyncIterator()
        _ = try await iterator?.next()
        _ = try await iterator?.next()
        #expect(acknowledged == tokens([1]))
        (messages, iterator) = (nil, nil)
        #expect(acknowledged == tokens([1, 2, 3]))
        #expect(source.record.value.closed == nil)
    }

    @Test func `who waits for the grant may be cancelled, and the subscription goes on`() async throws {
        let pipe = pipe()
        let messages = Messages(pipe)
        let granted = Task { try await messages.granted() }
        granted.cancel()
        await #expect(throws: ClientError.cancelled) { try await granted.value }
        pipe.grant([.grantedQoS1])
        #expect(try await messages.granted() == [.grantedQoS1])
        #expect(source.record.value.closed == nil)
    }

    @Test func `the end comes behind what waits, with its reason`() async throws {
        let pipe = pipe()
        let messages = Messages(pipe)
        send(1...1, to: pipe)
        pipe.end(.refused(.notAuthorized))
        var iterator = messages.makeAsyncIterator()
        #expect(try await iterator.next()?.payload == "1")
        await #expect(throws: ClientError.refused(.notAuthorized)) { try await iterator.next() }
        await #expect(throws: ClientError.refused(.notAuthorized)) { try await messages.granted() }
    }

    @Test func `a waiting consumer is woken by a message, by a grant and by the end`() async throws {
        let pipe = pipe()
        let messages = Messages(pipe)
        let granted = Task { try await messages.granted() }
        let taken = Task {
            var payloads: [Payload] = []
            for try await message in messages { payloads.append(message.payload) }
            return payloads
        }
        pipe.grant([.grantedQoS1])
        #expect(try await granted.value == [.grantedQoS1])
        send(1...2, to: pipe)
        pipe.end(nil)
        #expect(try await taken.value == ["1", "2"])
    }
}

private final class RecordingReceiver: MessageReceiver {
    let payloads = Locked<[Payload]>([])
    let end = Locked<ClientError?>(nil)

    func received(_ message: ReceivedMessage) { payloads.withLock { $0.append(message.payload) } }
    func ended(_ error: ClientError) { end.withLock { $0 = error } }
}
