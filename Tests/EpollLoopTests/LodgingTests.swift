import Glibc
import Synchronization
import Testing

@testable import EpollLoop

/// A loop whose turns another loop's thread runs for a while.
@Suite struct LodgingTests {
    /// Two loops, each on a thread of its own until the first one's turn asks the second to take it in.
    private struct House {
        let guest: EventLoop
        let host: EventLoop
        let requests: Mailbox<@Sendable () -> Void>

        /// - Parameter patience: in milliseconds; long, unless it is what is tested.
        init(patience: Int = 10_000) throws {
            guest = try EventLoop(name: "guest", patienceMilliseconds: patience)
            host = try EventLoop(name: "host")
            requests = Mailbox(loop: host)
        }

        /// What asks the host to take the guest in.
        func ask(milliseconds: UInt64) -> (LodgingRequest) -> Void {
            { [host, requests] request in
                requests.post { host.takeIn(request, until: EventLoop.monotonicMilliseconds() + milliseconds) }
            }
        }

        /// Runs both until the guest is stopped, then the host.
        func run(_ turn: LodgersTurn) throws {
            let hosting = try LoopThread.start(name: "host") { [host, requests] in
                host.run(TestTurn(begin: { _ in requests.drain { $0() } }))
            }
            let staying = try LoopThread.start(name: "guest") { [guest] in guest.run(turn) }
            staying.join()
            host.stop()
            hosting.join()
        }
    }

    @Test func `the host's thread runs the turns until the time has come, then the loop's own`() throws {
        let house = try House()
        let turn = LodgersTurn(house.guest)
        turn.work = { turn in
            if turn.count == 1 { turn.askHost = house.ask(milliseconds: 30) }
            if turn.count > 2, turn.isHome { turn.loop.stop() }
            return EventLoop.monotonicMilliseconds() + 2
        }
        try house.run(turn)
        #expect(turn.threads.first == turn.threads.last)
        #expect(turn.threads.dropFirst().dropLast().allSatisfy { $0 != turn.threads.first })
        #expect(turn.count > 3)
    }

    @Test func `events, letters and deadlines find the loop where it lodges, while the host sleeps`() throws {
        let house = try House()
        let (pair, mailbox) = (try SocketPair(), Mailbox<Int>(loop: house.guest))
        let turn = LodgersTurn(house.guest)
        let isAway = Flag()
        var (found, deadline): ([String], UInt64?) = ([], nil)
        let reader = ClosureHandler { _ in
            var byte: UInt8 = 0
            while read(pair.near, &byte, 1) == 1 {}
            found.append("event")
            mailbox.post(1)
        }
        turn.work = { turn in
            if turn.count == 1 {
                #expect(throws: Never.self) { try turn.loop.register(pair.near, for: .readable, handler: reader) }
                turn.askHost = house.ask(milliseconds: 60_000)
                return nil
            }
            isAway.raise()
            mailbox.drain { _ in
                found.append("letter")
                deadline = EventLoop.monotonicMilliseconds() + 5
            }
            if let time = deadline, time <= EventLoop.monotonicMilliseconds() {
                found.append("deadline")
                turn.loop.stop()
            }
            return deadline
        }
        let caller = try LoopThread.start(name: "calls") { [far = pair.far] in
            isAway.wait()
            usleep(2000)
            _ = write(far, [1] as [UInt8], 1)
        }
        try house.run(turn)
        caller.join()
        #expect(found == ["event", "letter", "deadline"])
        #expect(turn.threads.dropFirst().allSatisfy { $0 != turn.threads.first })
    }

    @Test func `a host that does not come is not waited for`() throws {
        let house = try House(patience: 5)
        let turn = LodgersTurn(house.guest)
        turn.work = { turn in
            if turn.count == 1 { turn.askHost = { _ in } } else { turn.loop.stop() }
            return nil
        }
        try house.run(turn)
        #expect(Set(turn.threads).count == 1 && turn.count == 2)
        #expect(turn.stays == [false])
    }

    @Test func `a host that comes too late takes nobody in, also when another one has been asked since`() throws {
        let house = try House(patience: 5)
        let turn = LodgersTurn(house.guest)
        let (mayCome, hasCome) = (Flag(), Flag())
        turn.work = { turn in
            switch turn.count {
            case 1:
                let ask = house.ask(milliseconds: 60_000)
                turn.askHost = { request in
                    house.requests.post { mayCome.wait() }
                    ask(request)
                }
            case 2:
                turn.askHost = { _ in
                    // Behind the first request, so the host has had that when it comes to this.
                    house.requests.post { hasCome.raise() }
                    mayCome.raise()
                    hasCome.wait()
                }
            default: turn.loop.stop()
            }
            return nil
        }
        try house.run(turn)
        #expect(Set(turn.threads).count == 1)
        #expect(turn.stays == [false, false])
    }

    @Test func `an errand is done at home`() throws {
        let house = try House()
        let turn = LodgersTurn(house.guest)
        let errandThread = Atomic<UInt>(0)
        turn.work = { turn in
            switch turn.count {
            case 1: turn.askHost = house.ask(milliseconds: 60_000)
            case 2:
                turn.errand = {
                    errandThread.store(UInt(pthread_self()), ordering: .relaxed)
                    house.guest.wake()
                }
            default: break
            }
            if errandThread.load(ordering: .relaxed) != 0 { turn.loop.stop() }
            return turn.errand == nil ? EventLoop.monotonicMilliseconds() + 1 : nil
        }
        try house.run(turn)
        #expect(turn.threads[1] != turn.threads[0])
        #expect(errandThread.load(ordering: .relaxed) == turn.threads[0])
    }

    @Test func `a loop whose host is stopped goes on at home`() throws {
        let house = try House()
        let turn = LodgersTurn(house.guest)
        turn.work = { turn in
            if turn.count == 1 { turn.askHost = house.ask(milliseconds: 60_000) }
            if turn.count == 2 { house.host.stop() }
            if turn.count > 2, turn.isHome { turn.loop.stop() }
            return EventLoop.monotonicMilliseconds() + 1
        }
        try house.run(turn)
        #expect(turn.threads[1] != turn.threads[0])
        #expect(turn.threads.last == turn.threads[0])
    }

    @Test func `a lodger that always has more to do leaves the host its turns`() throws {
        let house = try House()
        let turn = LodgersTurn(house.guest)
        let hostHadTurns = Atomic<Int>(0)
        turn.work = { turn in
            if turn.count == 1 { turn.askHost = house.ask(milliseconds: 60_000) }
            if turn.count > 1 { house.requests.post { hostHadTurns.add(1, ordering: .relaxed) } }
            if hostHadTurns.load(ordering: .relaxed) >= 100 { turn.loop.stop() }
            return 0
        }
        try house.run(turn)
        #expect(turn.count <= 110)
    }

    @Test func `a loop that lodges takes nobody in, and one that has lodgers does not lodge`() throws {
        let (house, last) = (try House(), try EventLoop(name: "last", patienceMilliseconds: 5))
        let requests = Mailbox<@Sendable () -> Void>(loop: house.guest)
        let (turn, lastTurn) = (LodgersTurn(house.guest), LodgersTurn(last))
        let (isAway, hasBeenRefused) = (Flag(), Flag())
        turn.work = { turn in
            requests.drain { $0() }
            if turn.count == 1 { turn.askHost = house.ask(milliseconds: 60_000) }
            if turn.count == 2 { isAway.raise() }
            if hasBeenRefused.isRaised { turn.loop.stop() }
            return EventLoop.monotonicMilliseconds() + 1
        }
        lastTurn.work = { lastTurn in
            if lastTurn.count == 1 {
                lastTurn.askHost = { request in
                    isAway.wait()
                    requests.post { house.guest.takeIn(request, until: EventLoop.monotonicMilliseconds() + 60_000) }
                }
            } else {
                hasBeenRefused.raise()
                last.stop()
            }
            return nil
        }
        let lasting = try LoopThread.start(name: "last") { last.run(lastTurn) }
        try house.run(turn)
        lasting.join()
        #expect(lastTurn.stays == [false] && Set(lastTurn.threads).count == 1)
        #expect(turn.stays == [true])
    }

    @Test func `one thread at a time runs the loop, and no letter is lost, however often it comes and goes`() throws {
        let house = try House()
        let turn = LodgersTurn(house.guest)
        let mailbox = Mailbox<Int>(loop: house.guest)
        let isInside = Atomic<Bool>(false)
        let read = Atomic<Int>(0)
        turn.work = { turn in
            let isAlone = !isInside.exchange(true, ordering: .relaxed)
            #expect(isAlone)
            defer { isInside.store(false, ordering: .relaxed) }
            mailbox.drain { letter in
                #expect(letter == read.load(ordering: .relaxed))
                read.store(letter + 1, ordering: .releasing)
            }
            if read.load(ordering: .relaxed) == 2000 { turn.loop.stop() }
            if turn.isHome, turn.count % 3 == 0 { turn.askHost = house.ask(milliseconds: UInt64(turn.count % 4)) }
            return nil
        }
        let sender = try LoopThread.start(name: "sends") {
            for letter in 0..<2000 {
                mailbox.post(letter)
                if letter % 7 == 0 { usleep(100) }
                if letter % 5 == 0 { while read.load(ordering: .acquiring) <= letter { sched_yield() } }
            }
        }
        try house.run(turn)
        sender.join()
        #expect(read.load(ordering: .relaxed) == 2000)
        #expect(Set(turn.threads).count == 2)
    }
}

/// A turn that asks to lodge, or has an errand, if the test says so.
private final class LodgersTurn: LoopTurn, @unchecked Sendable {
    let loop: EventLoop
    var count = 0
    private(set) var threads: [UInt] = []
    var work: (LodgersTurn) -> UInt64? = { _ in nil }
    var askHost: ((LodgingRequest) -> Void)?
    /// Whether each asking led to a stay.
    private(set) var stays: [Bool] = []
    var errand: Errand?

    init(_ loop: EventLoop) { self.loop = loop }

    /// Whether the thread that ran the first turn runs this one.
    var isHome: Bool { threads.last == threads.first }

    var hasErrand: Bool { errand != nil }

    func beginTurn(now: UInt64) {
        count += 1
        threads.append(UInt(pthread_self()))
    }

    func endOfTurn(now: UInt64) -> UInt64? { work(self) }

    func takeErrand() -> Errand? {
        defer { errand = nil }
        return errand
    }

    func wantsToLodge() -> Bool { askHost != nil }

    func ask(_ request: LodgingRequest) {
        let askHost = askHost
        self.askHost = nil
        askHost?(request)
    }

    func cameHome(wasAway: Bool) { stays.append(wasAway) }
}
