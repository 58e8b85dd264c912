import Glibc
import Platform

/// Letters between threads.
func measureMailbox(_ meter: inout Meter) {
    meter.measure("mailbox/post and drain, one thread, letters by 16") { operations in
        let box = Mailbox<Int> {}
        var sum = 0
        for _ in 0..<max(1, operations / 16) {
            for letter in 0..<16 { box.post(letter) }
            box.drain { sum += $0 }
        }
        use(sum)
    }
    meter.measure("mailbox/post on one thread, drain on another") { operations in
        let box = Mailbox<Int> {}
        let thread = try? NamedThread.start(name: "sender") { for letter in 0..<operations { box.post(letter) } }
        var left = operations
        while left > 0 { box.drain { _ in left -= 1 } }
        thread?.join()
    }
    guard meter.wants("mailbox/there and back between two loops") else { return }
    meter.measure("mailbox/there and back between two loops", unit: "round trip") { operations in
        guard let rally = try? Rally(count: operations) else { return }
        rally.run()
    }
}

/// Two loops that post each other one letter, back and forth: what it costs to wake a sleeping loop.
private final class Rally: @unchecked Sendable {
    private let players: [Player]

    init(count: Int) throws {
        players = [try Player(count: count), try Player(count: count)]
        players[0].other = players[1]
        players[1].other = players[0]
    }

    func run() {
        let players = self.players
        let thread = try? NamedThread.start(name: "rally") { players[1].run() }
        players[0].box.post(0)
        players[0].run()
        thread?.join()
        for player in players { player.other = nil }
    }
}

private final class Player: LoopTurn, @unchecked Sendable {
    let box: Mailbox<Int>
    var other: Player?
    private let events: EventLoop
    private let count: Int

    init(count: Int) throws {
        self.count = count
        events = try EventLoop(name: "rally")
        box = Mailbox(loop: events)
    }

    func run() { events.run(self) }

    func beginTurn(now: UInt64) {
        box.drain { letter in
            other?.box.post(letter + 1)
            if letter >= 2 * count { events.stop() }
        }
    }

    func endOfTurn(now: UInt64) -> UInt64? { nil }
}
