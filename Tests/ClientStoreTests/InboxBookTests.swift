import ClientCore
import MQTTCodec
import TestBasics
import Testing

@testable import ClientStore

@Suite struct InboxBookTests {
    private let disk = MemoryDisk()

    private func message(
        _ text: String, from publisher: String? = nil, under packetIdentifier: UInt16? = nil, duplicate: Bool = false
    ) -> ReceivedMessage {
        var message = ReceivedMessage(
            topic: "chat/lobby", payload: Payload(text), qos: packetIdentifier == nil ? .atMostOnce : .atLeastOnce, retain: false,
            duplicate: duplicate, token: packetIdentifier.map { AcknowledgementToken(number: UInt64($0)) })
        if let publisher { message.properties.messageIdentifier = publisher }
        return message
    }

    @Test func `messages are numbered in their conversation, and read from the last backwards`() throws {
        let store = try MemoryStore(disk)
        var book = try InboxBook("chat", in: store)
        for (room, text) in [("lobby", "1"), ("bar", "2"), ("lobby", "3"), ("lobby", "4")] {
            let arrived = book.arrived(message(text), in: room, now: 5)
            store.commit(StoreBatch(try #require(arrived).changes)) { _ in }
        }
        let page = try store.rows(InboxBook.messages("chat", in: "lobby", before: nil, limit: 2))
        #expect(page.rows.map { InboxMessage($0, of: "chat")?.payload } == ["4", "3"])
        #expect(page.rows.map { InboxMessage($0, of: "chat")?.number } == [3, 2])
        let rest = try store.rows(InboxBook.messages("chat", in: "lobby", before: 2, limit: 9))
        #expect(rest.rows.map { InboxMessage($0, of: "chat")?.payload } == ["1"])
        let recent = try store.rows(InboxBook.recent("chat", limit: 9)).rows.compactMap { RecentRow($0)?.last }
        #expect(recent.map(\.conversation) == ["lobby", "bar"])
        #expect(recent.map(\.payload) == ["4", "2"])
        #expect(recent.first?.arrivedAt == 5)
        #expect(book.unread.total == 4)
        #expect(book.unread["lobby"] == 3)
    }

    @Test func `what was read is not unread again, and never counts below zero`() throws {
        let store = try MemoryStore(disk)
        var book = try InboxBook("chat", in: store)
        for _ in 0..<3 { store.commit(StoreBatch(book.arrived(message("x"), in: "lobby", now: 0)?.changes ?? [])) { _ in } }
        store.commit(StoreBatch(book.markRead("lobby", through: 2))) { _ in }
        #expect(book.unread.total == 1)
        #expect(book.markRead("lobby", through: 1).isEmpty)
        #expect(book.markRead("bar", through: 1).isEmpty)
        store.commit(StoreBatch(book.markRead("lobby", through: 99))) { _ in }
        #expect(book.unread.total == 0 && book.unread.conversations.isEmpty)
        var again = try InboxBook("chat", in: store)
        #expect(again.unread.total == 0)
        _ = again.arrived(message("y"), in: "lobby", now: 0)
        #expect(again.unread["lobby"] == 1)
    }

    @Test func `one's own messages stand in their conversation and are not unread, whatever is between them`() throws {
        let store = try MemoryStore(disk)
        var book = try InboxBook("chat", in: store)
        func sends(_ text: String, _ number: UInt64) {
            let own = book.sent(Publication("chat/lobby", Payload(text)), in: "lobby", now: 1)
            store.commit(StoreBatch(book.changes(for: own, outbox: number, byteCount: 9) + [book.totals])) { _ in }
        }
        func comes(_ text: String) {
            store.commit(StoreBatch((book.arrived(message(text), in: "lobby", now: 1)?.changes ?? []) + [book.totals])) { _ in }
        }
        sends("1", 1)
        #expect(book.unread.total == 0)
        comes("2")
        sends("3", 2)
        comes("4")
        sends("5", 3)
        #expect(book.unread["lobby"] == 2)
        var again = try InboxBook("chat", in: store)
        #expect(again.unread["lobby"] == 2 && again.count == 5 && again.repairs.isEmpty)
        _ = again.markRead("lobby", through: 2)
        #expect(again.unread["lobby"] == 1)
        _ = again.markRead("lobby", through: 4)
        #expect(again.unread.total == 0)
        let recent = try store.rows(InboxBook.recent("chat", limit: 9)).rows.compactMap { RecentRow($0)?.last }
        #expect(recent.map(\.payload) == ["5"])
        let states = try store.rows(OwnMessageRow.query("chat", "lobby", 1...5)).rows.compactMap { OwnMessageRow($0)?.state }
        #expect(states == [1, 2, 3].map { .open($0, byteCount: 9) })
    }

    @Test func `who answers a hundred times without reading has read what is before the first answer`() throws {
        let store = try MemoryStore(disk)
        var book = try InboxBook("chat", in: store)
        for number in 1...101 {
            _ = book.arrived(message("\(number)"), in: "lobby", now: 1)
            _ = book.sent(Publication("chat/lobby", "x"), in: "lobby", now: 1)
            #expect(book.unread.total == min(number, 100))
        }
    }

    @Test func `what comes between a message of one's own and its storing stands for the conversation`() throws {
        let store = try MemoryStore(disk)
        var book = try InboxBook("chat", in: store)
        store.commit(StoreBatch(book.arrived(message("1"), in: "lobby", now: 1)?.changes ?? [])) { _ in }
        let own = book.sent(Publication("chat/lobby", "2"), in: "lobby", now: 1)
        store.commit(StoreBatch(book.arrived(message("3"), in: "lobby", now: 1)?.changes ?? [])) { _ in }
        store.commit(StoreBatch(book.changes(for: own, outbox: 1, byteCount: 1))) { _ in }
        let recent = try store.rows(InboxBook.recent("chat", limit: 9)).rows.compactMap { RecentRow($0)?.last }
        #expect(recent.map(\.payload) == ["3"])
        #expect(try store.rows(InboxBook.messages("chat", in: "lobby", before: nil, limit: 9)).rows.count == 3)
    }

    @Test func `a message of one's own that found no room leaves the conversation as it was`() throws {
        let store = try MemoryStore(disk)
        var book = try InboxBook("chat", in: store)
        store.commit(StoreBatch(book.arrived(message("1"), in: "lobby", now: 1)?.changes ?? [])) { _ in }
        let (first, second) = (
            book.sent(Publication("chat/lobby", "2"), in: "lobby", now: 1),
            book.sent(Publication("chat/lobby", "3"), in: "lobby", now: 1)
        )
        _ = book.changes(for: first, outbox: 1, byteCount: 1)
        _ = book.changes(for: second, outbox: 2, byteCount: 1)
        for own in [second, first] { store.commit(StoreBatch(book.notSent(own))) { _ in } }
        #expect(book.count == 1 && book.unread.total == 1 && book.unshown == ["lobby"])
        store.commit(StoreBatch(book.show(try store.rows(book.newest(of: "lobby")), of: "lobby"))) { _ in }
        let recent = try store.rows(InboxBook.recent("chat", limit: 9)).rows.compactMap { RecentRow($0)?.last }
        #expect(recent.map(\.payload) == ["1"])
    }

    @Test func `one's own message that comes back is known by its identifier, or once by its contents`() throws {
        let store = try MemoryStore(disk)
        var book = try InboxBook("chat", in: store)
        var publication = Publication("chat/lobby", "hi")
        publication.properties.messageIdentifier = "me-1"
        store.commit(StoreBatch(book.leaves(1, publication, isUnnamed: false, now: 5))) { _ in }
        #expect(book.arrived(message("hi", from: "me-1"), in: "lobby", now: 6) == nil)
        store.commit(StoreBatch(book.leaves(2, publication, isUnnamed: true, now: 5))) { _ in }
        store.commit(StoreBatch(book.leaves(3, publication, isUnnamed: true, now: 5))) { _ in }
        store.commit(StoreBatch(book.settled(3, isTaken: false))) { _ in }
        var again = try InboxBook("chat", in: store)
        #expect(again.arrived(message("hi", from: "me-1"), in: "lobby", now: 6) == nil)
        #expect(again.arrived(message("other"), in: "lobby", now: 6)?.message != nil)
        let echo = again.arrived(message("hi"), in: "lobby", now: 6)
        #expect(echo?.message == nil && echo?.changes.isEmpty == false)
        #expect(again.arrived(message("hi"), in: "lobby", now: 6)?.message != nil, "the second is another's")
        // A day later nobody expects it.
        #expect(book.arrived(message("hi"), in: "lobby", now: 6 + 86_400_000)?.message != nil)
    }

    @Test func `what the server took over does not come back when it forgets the session`() throws {
        var book = try InboxBook("chat", in: try MemoryStore(disk))
        for number in UInt64(1)...2 { _ = book.leaves(number, Publication("chat/lobby", "\(number)"), isUnnamed: true, now: 5) }
        _ = book.settled(1, isTaken: true)
        _ = book.sessionLost()
        #expect(book.arrived(message("1"), in: "lobby", now: 6)?.message != nil)
        let echo = book.arrived(message("2"), in: "lobby", now: 6)
        #expect(echo?.message == nil && echo?.changes.isEmpty == false)
    }

    @Test func `removed messages are not unread, and the newest that is left stands for the conversation`() throws {
        let store = try MemoryStore(disk)
        var book = try InboxBook("chat", in: store)
        for text in ["1", "2", "3"] {
            store.commit(StoreBatch((book.arrived(message(text), in: "lobby", now: 1)?.changes ?? []) + [book.totals])) { _ in }
        }
        func remove(_ numbers: ClosedRange<UInt64>) throws {
            let removed = book.remove(try store.rows(book.messages(of: "lobby", numbers)))
            #expect(removed.next == nil)
            store.commit(StoreBatch(removed.changes + [book.totals])) { _ in }
            for conversation in book.unshown {
                store.commit(StoreBatch(book.show(try store.rows(book.newest(of: conversation)), of: conversation))) { _ in }
            }
        }
        try remove(2...3)
        #expect(book.unread.total == 1 && book.count == 1)
        let recent = try store.rows(InboxBook.recent("chat", limit: 9)).rows.compactMap { RecentRow($0)?.last }
        #expect(recent.map(\.payload) == ["1"])
        let comes = book.arrived(message("4"), in: "lobby", now: 1)
        store.commit(StoreBatch((comes?.changes ?? []) + [book.totals])) { _ in }
        #expect(comes?.message?.number == 4 && book.unread.total == 2)
        try remove(0...UInt64.max)
        #expect(book.unread == UnreadCount() && book.count == 0 && book.byteCount == 0)
        for table in [StoreTable.inbox, .kept, .recent, .conversation, .own] {
            let rows = try store.rows(StoreQuery(table)).rows
            #expect(rows.count == (table == .kept ? 1 : 0), "\(table)")
        }
    }

    @Test func `the oldest go first when there are too many, too large or too old ones, also where the totals are lost`() throws {
        let store = try MemoryStore(disk)
        var book = try InboxBook("chat", in: store)
        for number in UInt64(1)...6 {
            let arrived = book.arrived(message("\(number)"), in: "room \(number % 2)", now: number * 100)
            // Without totals and ages.
            let changes = arrived?.changes.filter { if case .put(.kept, _, _) = $0 { false } else { true } }
            store.commit(StoreBatch(changes ?? [])) { _ in }
        }
        var again = try InboxBook("chat", in: store)
        #expect(again.count == 6 && again.byteCount == book.byteCount && again.repairs.count == 8)
        store.commit(StoreBatch(again.repairs)) { _ in }
        func trim(_ bounds: InboxBounds, now: UInt64) throws -> ([UInt64], UInt64?) {
            let trimmed = again.trim(try store.rows(again.oldest), to: bounds, now: now)
            store.commit(StoreBatch(trimmed.changes + [again.totals])) { _ in }
            return (trimmed.removed.map(\.number), trimmed.next)
        }
        #expect(try trim(InboxBounds(messages: 5), now: 0) == ([1], nil))
        #expect(try trim(InboxBounds(bytes: again.byteCount - 1), now: 0) == ([1], nil))
        #expect(try trim(InboxBounds(milliseconds: 50), now: 400) == ([2], 450))
        #expect(again.count == 3)
        #expect(again.unread.total == 3)
        #expect(try trim(InboxBounds(messages: 0), now: 0).0 == [2, 3, 3])
        #expect(again.unshown == ["room 0", "room 1"] && again.unread.total == 0)
    }

    @Test func `a repeat is known by its publisher's identifier, also after a restart and from another session`() throws {
        let store = try MemoryStore(disk)
        var book = try InboxBook("chat", in: store, capacity: 3)
        for number in 1...4 {
            let arrived = book.arrived(message("same", from: "m\(number)", under: 7), in: "lobby", now: 0)
            store.commit(StoreBatch(try #require(arrived).changes)) { _ in }
        }
        var again = try InboxBook("chat", in: store, capacity: 3)
        _ = again.sessionLost()
        for number in 2...4 { #expect(again.arrived(message("same", from: "m\(number)", under: 8), in: "lobby", now: 0) == nil) }
        // Only so many are remembered.
        #expect(again.arrived(message("same", from: "m1", under: 8), in: "lobby", now: 0) != nil)
    }

    @Test func `without one, it is known by DUP and packet identifier in the same session`() throws {
        let store = try MemoryStore(disk)
        var book = try InboxBook("chat", in: store)
        func arrives(_ book: inout InboxBook, _ text: String, _ packetIdentifier: UInt16?, duplicate: Bool = true) -> Bool {
            guard let arrived = book.arrived(message(text, under: packetIdentifier, duplicate: duplicate), in: "lobby", now: 0)
            else {
                return false
            }
            store.commit(StoreBatch(arrived.changes)) { _ in }
            return true
        }
        #expect(arrives(&book, "a", 7, duplicate: false))
        var again = try InboxBook("chat", in: store)
        #expect(!arrives(&again, "a", 7))
        // Sent anew, under another identifier, or something else.
        #expect(arrives(&again, "a", 7, duplicate: false))
        #expect(arrives(&again, "a", 8))
        #expect(arrives(&again, "b", 7))
        #expect(arrives(&again, "a", nil) && arrives(&again, "a", nil))
        store.commit(StoreBatch(again.sessionLost())) { _ in }
        var third = try InboxBook("chat", in: store)
        #expect(arrives(&third, "b", 7))
    }

    @Test func `inboxes in one store know nothing of each other`() throws {
        let store = try MemoryStore(disk)
        var chat = try InboxBook("chat", in: store)
        store.commit(StoreBatch(chat.arrived(message("a", from: "m"), in: "lobby", now: 0)?.changes ?? [])) { _ in }
        var mail = try InboxBook("chat2", in: store)
        #expect(mail.unread.total == 0)
        #expect(mail.arrived(message("a", from: "m"), in: "lobby", now: 0) != nil)
    }

    @Test func `a conversation whose row is damaged goes on behind its last message`() throws {
        let store = try MemoryStore(disk)
        var book = try InboxBook("chat", in: store)
        for _ in 0..<3 { store.commit(StoreBatch(book.arrived(message("x"), in: "lobby", now: 0)?.changes ?? [])) { _ in } }
        disk.damage(.conversation, StoreKey("chat").text("lobby"))
        var again = try InboxBook("chat", in: store)
        #expect(again.unread.total == 0)
        #expect(again.arrived(message("y"), in: "lobby", now: 0)?.message?.number == 4)
    }

    @Test(arguments: UInt64(1)...50)
    func `unread counts and contents equal a model, whenever the client crashes`(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        var store = try MemoryStore(disk)
        var book = try InboxBook("chat", in: store)
        // What the store has: texts and how many are read, by conversation.
        var model: [String: (texts: [String], read: Int)] = [:]
        var uncommitted = model
        var next = 0
        var held: [[String: (texts: [String], read: Int)]] = []
        store.holdsCommits = true
        for _ in 0..<200 {
            let room = ["lobby", "bar", "roof"][random.below(3)]
            switch random.below(8) {
            case 0...3:
                // Sometimes one that came before.
                let number = random.oneIn(4) ? random.below(next + 1) : next
                let isNew = !uncommitted.values.contains { $0.texts.contains("\(number)") }
                let arrived = book.arrived(message("\(number)", from: "m\(number)", under: 1), in: room, now: 0)
                #expect((arrived != nil) == isNew)
                guard let arrived else { continue }
                next = max(next, number + 1)
                uncommitted[room, default: ([], 0)].texts.append("\(number)")
                held.append(uncommitted)
                store.commit(StoreBatch(arrived.changes)) { #expect($0 == nil) }
            case 4:
                let through = random.below(6)
                let changes = book.markRead(room, through: UInt64(through))
                guard !changes.isEmpty, let known = uncommitted[room] else { continue }
                uncommitted[room]?.read = max(known.read, min(through, known.texts.count))
                held.append(uncommitted)
                store.commit(StoreBatch(changes)) { #expect($0 == nil) }
            case 5, 6:
                let count = random.below(3)
                for _ in 0..<min(count, held.count) {
                    store.complete(1)
                    model = held.removeFirst()
                }
            default:
                guard random.oneIn(3) else { continue }
                store.crash()
                store = try MemoryStore(disk)
                store.holdsCommits = true
                book = try InboxBook("chat", in: store)
                (uncommitted, held) = (model, [])
            }
            #expect(book.unread.total == uncommitted.values.reduce(0) { $0 + $1.texts.count - $1.read }, "seed \(seed)")
        }
        store.holdsCommits = false
        for (room, known) in uncommitted {
            let rows = try store.rows(InboxBook.messages("chat", in: room, before: nil, limit: 1000)).rows
            #expect(rows.compactMap { InboxMessage($0, of: "chat")?.payload.text }.reversed() == known.texts, "seed \(seed)")
        }
        #expect(try store.rows(StoreQuery(.recent)).rows.count == uncommitted.count)
    }
}
