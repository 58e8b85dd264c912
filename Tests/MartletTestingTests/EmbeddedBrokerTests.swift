import Bytes
import Testing
import Transports

@testable import MartletTesting
@testable import Platform

/// The broker in the process, with the machine's clock.
struct EmbeddedBrokerTests {
    private func client(_ name: String, _ broker: EmbeddedBroker) throws -> Client {
        var settings = ClientSettings(server: .inProcess(broker), clientIdentifier: name)
        settings.reconnect = .never
        return try Client(settings)
    }

    @Test func `clients reach it, and it tells what has happened`() async throws {
        let broker = try EmbeddedBroker()
        let (publisher, subscriber) = (try client("publisher", broker), try client("subscriber", broker))
        let messages = subscriber.messages("home/#")
        try await publisher.connect()
        try await subscriber.connect()
        try await messages.granted()
        for number in 0..<100 {
            try await publisher.publish(Payload("\(number)"), to: "home/kitchen", qos: .exactlyOnce, retain: number == 99)
        }
        var seen: [String] = []
        for try await message in messages {
            seen.append("\(message.payload)")
            if seen.count == 100 { break }
        }
        #expect(seen == (0..<100).map(String.init))
        #expect(broker.published("home/kitchen").count == 100)
        #expect(broker.published.map(\.qos).allSatisfy { $0 == .exactlyOnce })
        #expect(await broker.subscriptions(of: "subscriber") == ["home/#"])
        #expect(await broker.subscriptions(of: "publisher") == [])
        #expect(await broker.retained.map { "\($0.topic) \($0.payload)" } == ["home/kitchen 99"])
        #expect(await broker.clients == ["publisher", "subscriber"])
    }

    @Test func `a message larger than a socket's room arrives whole`() async throws {
        let broker = try EmbeddedBroker()
        let client = try client("c", broker)
        let messages = client.messages("large")
        try await client.connect()
        try await messages.granted()
        let payload = Payload((0..<1_900_000).map { UInt8(truncatingIfNeeded: $0 &* 31) })
        try await client.publish(payload, to: "large", qos: .atLeastOnce)
        for try await message in messages {
            #expect(message.payload == payload)
            break
        }
    }

    @Test func `stopping it ends its clients' connections, and it lets nobody in any more`() async throws {
        let broker = try EmbeddedBroker()
        let client = try client("c", broker)
        try await client.connect()
        await broker.stop()
        for await state in client.states {
            if case .refused = state { break }
            if case .offline = state { break }
        }
        await #expect(throws: ClientError.self) { try await client.connect() }
        await broker.stop()
        #expect(await broker.clients == [])
    }

    /// The loop of an embedded broker that nobody runs but the test, its clock, and a client of an hour after its last
    /// turn.
    private struct Held {
        let clock: LeapingPoller
        let loop: EmbeddedLoop
        let client: SocketChannel

        init() throws {
            clock = LeapingPoller(try EpollPoller())
            loop = EmbeddedLoop(EventLoop(name: "held", poller: clock))
            let (ours, theirs) = try SocketChannel.pair()
            client = theirs
            turn()
            clock.leap += 3_600_000
            loop.mailbox.post(.accept(ours))
            turn()
        }

        func turn() { _ = loop.events.turn(loop, until: 0) }

        /// What the broker answers to a packet.
        func answer(to packet: [UInt8]) -> [UInt8]? {
            _ = packet.withUnsafeBytes { bytes in
                withUnsafePointer(to: ByteSlice(base: bytes.baseAddress.unsafelyUnwrapped, count: bytes.count)) {
                    client.write(UnsafeBufferPointer(start: $0, count: 1))
                }
            }
            turn()
            return withUnsafeTemporaryAllocation(byteCount: 64, alignment: 1) { room in
                guard case .bytes(let count) = client.read(into: room) else { return nil }
                return Array(room[..<count])
            }
        }
    }

    @Test func `a client that pings in time stays, however long the broker had nothing to do before`() throws {
        let held = try Held()
        // CONNECT of MQTT 3.1.1 with a Keep Alive of 10 seconds.
        let connect: [UInt8] = [0x10, 13, 0, 4] + Array("MQTT".utf8) + [4, 2, 0, 10, 0, 1, UInt8(ascii: "c")]
        #expect(held.answer(to: connect) == [0x20, 2, 0, 0])
        for _ in 0..<10 {
            held.clock.leap += 10_000
            #expect(held.answer(to: [0xc0, 0]) == [0xd0, 0])
        }
    }
}

/// The kernel's poller with a clock that the test can put forward.
private final class LeapingPoller: Poller, @unchecked Sendable {
    // Unchecked: the test's thread alone calls it.
    private let poller: EpollPoller
    /// In milliseconds.
    var leap: UInt64 = 0

    init(_ poller: EpollPoller) { self.poller = poller }

    func add(_ descriptor: FileDescriptor, interest: Interest, data: UInt64) throws(SystemError) {
        try poller.add(descriptor, interest: interest, data: data)
    }

    func modify(_ descriptor: FileDescriptor, interest: Interest, data: UInt64) {
        poller.modify(descriptor, interest: interest, data: data)
    }

    func remove(_ descriptor: FileDescriptor) { poller.remove(descriptor) }

    func wait(into events: UnsafeMutableBufferPointer<ReadyRecord>, timeoutMilliseconds: Int32) -> Int {
        poller.wait(into: events, timeoutMilliseconds: timeoutMilliseconds)
    }

    func wake() { poller.wake() }
    func pause(microseconds: UInt32) { poller.pause(microseconds: microseconds) }
    var nowMilliseconds: UInt64 { poller.nowMilliseconds + leap }
    var nowMicroseconds: UInt64 { poller.nowMicroseconds + leap * 1000 }
}
