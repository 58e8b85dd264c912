import BrokerModel
import MQTTCodec
import Testing

@testable import Persistence

@Suite struct MosquittoImportTests {
    @Test func `a file that mosquitto wrote becomes sessions, queues and retained messages`() throws {
        let rows = ImportedRows(of: try MosquittoDatabase(MosquittoFile.real), listenerPorts: [1883, 33617])
        #expect(rows.unreadable == 0)
        #expect(
            rows.counts
                == MosquittoImportCounts(
                    sessions: 3, subscriptions: 2, queuedMessages: 6, receivedMessages: 1, retainedMessages: 1))
        let five = try #require(rows.sessions.values.first { $0.clientIdentifier == "five" })
        #expect(five.endsAt == 1_795_282_346_000 && !five.isConnected && five.expiryIntervalSeconds == 3600)
        let old = try #require(rows.sessions.values.first { $0.clientIdentifier == "old" })
        #expect(old.endsAt == nil && !old.isConnected && old.expiryIntervalSeconds == .max)
        #expect(old.userName == "anna" && old.listener == .place(1))
        #expect(rows.subscriptions.map(\.filter) == ["q/+", "q/#"])
        #expect(rows.subscriptions[0].identifier == 300 && rows.subscriptions[0].noLocal)
        #expect(rows.subscriptions[0].retainAsPublished && rows.subscriptions[0].maximumQoS == .exactlyOnce)
        let kept = StoredMessage(topic: Array("keep".utf8), payload: Array("it".utf8), qos: .atLeastOnce, retain: true)
        let origin = StoredOrigin(clientIdentifier: "x", userName: nil, listener: .place(1))
        #expect(rows.retained == [StoredRetained(message: kept, origin: origin)])
    }

    @Test func `what was in flight stays in flight, and what waited waits`() throws {
        let rows = ImportedRows(of: try MosquittoDatabase(MosquittoFile.real))
        let five = rows.queue(of: "five")
        #expect(five.map(\.entry.packetIdentifier) == [1, 2, 0])
        #expect(five.map { rows.flows[$0.key] } == [nil, StoredFlow(state: .released, packetIdentifier: 2), nil])
        #expect(five.map(\.entry.identifiers) == Array(repeating: [0x0B, 0xAC, 0x02], count: 3))
        let old = rows.queue(of: "old")
        #expect(old.map(\.entry.packetIdentifier) == [0, 0, 0])
        #expect(old.map(\.entry.qos) == [.atLeastOnce, .atLeastOnce, .atLeastOnce])
        #expect(old.allSatisfy { rows.flows[$0.key] == nil })
        for queue in [five, old] {
            #expect(queue.map { rows.message(of: $0.entry)?.payload } == ["one", "two", "half"].map { Array($0.utf8) })
            #expect(queue.allSatisfy { $0.key & 0xFF == 0 })
        }
        // Both wait for the same two messages: those stand there once.
        #expect(rows.messages.count == 2)
        let first = try #require(rows.message(of: five[0].entry))
        #expect(first.properties == [0x01, 1, 0x03, 0, 4] + Array("text".utf8) + [0x26, 0, 1, 0x6B, 0, 1, 0x76])
        #expect(first.expiresAt == nil && rows.message(of: five[1].entry)?.expiresAt == 1_795_279_746_000)
    }

    @Test func `a message that was not released is published, and its publisher's PUBREL is known`() throws {
        let rows = ImportedRows(of: try MosquittoDatabase(MosquittoFile.real))
        let publisher = try #require(rows.sessions.first { $0.value.clientIdentifier == "pub" })
        #expect(rows.receipts == [StoredReceipt(session: publisher.key, packetIdentifier: 33)])
        let last = ["five", "old"].compactMap { rows.queue(of: $0).last?.entry }
        #expect(last.compactMap { rows.message(of: $0)?.topic } == [Array("q/3".utf8), Array("q/3".utf8)])
        #expect(last.map(\.qos) == [.exactlyOnce, .atLeastOnce])
    }

    @Test func `a message that was not released obeys the subscriptions' options`() throws {
        var source = SmallDatabase()
        source.client("me")
        source.client("other")
        source.message(1, from: "me", "t", "x", retain: true)
        source.subscribe("me", "t", .exactlyOnce, options: 4)
        source.subscribe("me", "#", .atMostOnce, identifier: 9)
        source.subscribe("other", "t", .atLeastOnce, options: 8, identifier: 5)
        source.subscribe("other", "+", .exactlyOnce, identifier: 6)
        source.subscribe("other", "else", .exactlyOnce, identifier: 7)
        source.arrival("me", 1, identifier: 3, state: 7)
        let rows = ImportedRows(of: try source.database)
        #expect(rows.queue(of: "me").isEmpty, "QoS 0 does not wait, and No Local keeps the client's own from it")
        let entries = rows.queue(of: "other").map(\.entry)
        #expect(entries.map(\.qos) == [.exactlyOnce])
        #expect(entries.map(\.retain) == [true])
        #expect(entries.map(\.identifiers) == [[0x0B, 5, 0x0B, 6]])
        #expect(rows.retained.map(\.message.topic) == [Array("t".utf8)])
    }

    @Test func `a retained message that was not released takes the place of the one before`() throws {
        var source = SmallDatabase()
        source.client("me")
        for (number, payload) in ["old", "gone", "new", ""].enumerated() {
            source.message(UInt64(number), from: "me", number % 2 == 0 ? "t" : "u", payload, retain: true)
        }
        source.retain(0)
        source.retain(1)
        source.arrival("me", 2, identifier: 3, state: 7)
        source.arrival("me", 3, identifier: 4, state: 10)
        let rows = ImportedRows(of: try source.database)
        #expect(rows.retained.map(\.message.payload) == [Array("new".utf8)])
        #expect(rows.receipts.map(\.packetIdentifier) == [3, 4])
    }

    @Test func `a message that went out with its PUBREL is not published again`() throws {
        var source = SmallDatabase()
        source.client("me")
        source.message(1, from: "me", "t", "x")
        source.subscribe("me", "t", .exactlyOnce)
        source.arrival("me", 1, identifier: 3, state: 8)
        let rows = ImportedRows(of: try source.database)
        #expect(rows.entries.isEmpty && rows.receipts.count == 1)
    }

    @Test func `a session's time goes on, begins, or never comes`() throws {
        var source = SmallDatabase()
        source.client("goes on", expiry: 60, endsAt: 1000)
        source.client("begins", expiry: 60)
        source.client("never")
        source.client("not told", expiry: 0)
        source.client("out of reach", expiry: 60, endsAt: .max)
        let rows = ImportedRows(of: try source.database)
        let sessions = rows.sessions.sorted { $0.key < $1.key }.map(\.value)
        #expect(sessions.map(\.clientIdentifier) == ["goes on", "begins", "never", "not told", "out of reach"])
        #expect(sessions.map(\.endsAt) == [1_000_000, nil, nil, nil, nil])
        #expect(sessions.map(\.isConnected) == [false, true, false, false, false])
        #expect(sessions.map(\.expiryIntervalSeconds) == [60, 60, .max, .max, 60])
    }

    @Test func `every state of a message to a client is waiting, sent or released`() throws {
        var source = SmallDatabase()
        source.client("me")
        source.message(1, from: "", "t", "x")
        for state in UInt8(1)...11 { source.delivery("me", 1, identifier: UInt16(state), state: state) }
        let rows = ImportedRows(of: try source.database)
        let queue = rows.queue(of: "me")
        #expect(queue.map(\.entry.packetIdentifier) == [0, 2, 3, 4, 5, 6, 0, 0, 9, 0, 0])
        #expect(queue.map { rows.flows[$0.key]?.packetIdentifier ?? 0 } == [0, 0, 0, 0, 0, 6, 0, 0, 9, 0, 0])
    }

    @Test func `what belongs to nothing is counted and left out`() throws {
        var source = SmallDatabase()
        source.client("me")
        source.client("me")
        source.message(1, from: "", "t", "x")
        source.subscribe("nobody", "t", .atLeastOnce)
        source.subscribe("me", "t", .atLeastOnce)
        source.subscribe("me", "t", .atLeastOnce)
        source.delivery("nobody", 1, identifier: 1, state: 3)
        source.delivery("me", 99, identifier: 1, state: 3)
        source.delivery("me", 1, identifier: 5, state: 3)
        source.delivery("me", 1, identifier: 5, state: 3)
        source.arrival("me", 1, identifier: 5, state: 7)
        source.arrival("me", 1, identifier: 5, state: 7)
        source.retain(99)
        let rows = ImportedRows(of: try source.database)
        #expect(rows.unreadable == 0)
        #expect(rows.queue(of: "me").map(\.entry.packetIdentifier) == [5, 0, 0], "an identifier is in use once")
        #expect(
            rows.counts
                == MosquittoImportCounts(sessions: 1, subscriptions: 1, queuedMessages: 3, receivedMessages: 1, leftOut: 7))
    }
}
