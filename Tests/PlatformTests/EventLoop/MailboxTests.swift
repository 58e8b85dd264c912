import Platform
import Synchronization
import Testing

@Suite struct MailboxTests {
    struct Message: Sendable {
        let sender: Int
        let number: Int
    }

    @Test func `four senders' messages arrive complete and in each sender's order, and wake a loop that sleeps for ever`() throws {
        let loop = try EventLoop(name: "reader")
        let mailbox = Mailbox<Message>(loop: loop)
        let (senders, messages) = (4, 10_000)
        let threads = try (0..<senders).map { sender in
            try NamedThread.start(name: "sender \(sender)") {
                for number in 0..<messages { mailbox.post(Message(sender: sender, number: number)) }
            }
        }
        var expected = [Int](repeating: 0, count: senders)
        var disorder = 0
        loop.run(
            TestTurn(end: { _ in
                mailbox.drain { message in
                    if message.number != expected[message.sender] { disorder += 1 }
                    expected[message.sender] = message.number + 1
                }
                if expected.allSatisfy({ $0 == messages }) { loop.stop() }
                return nil
            }))
        threads.forEach { $0.join() }
        #expect(disorder == 0)
        #expect(expected == [Int](repeating: messages, count: senders))
        #expect(mailbox.isEmpty)
    }

    /// Each message is answered by the other loop, and both sleep for ever in between: one lost wake-up and this never
    /// ends.
    @Test(.timeLimit(.minutes(10))) func `two loops that answer each other never miss a message`() throws {
        let rounds = 20_000
        let near = try EventLoop(name: "near")
        let far = try EventLoop(name: "far")
        let toNear = Mailbox<Int>(loop: near)
        let toFar = Mailbox<Int>(loop: far)
        let thread = try NamedThread.start(name: "far") {
            far.run(
                TestTurn(end: { _ in
                    toFar.drain { number in
                        toNear.post(number)
                        if number == rounds { far.stop() }
                    }
                    return nil
                }))
        }
        var last = 0
        toFar.post(1)
        near.run(
            TestTurn(end: { _ in
                toNear.drain { number in
                    last = number
                    if number == rounds { near.stop() } else { toFar.post(number + 1) }
                }
                return nil
            }))
        thread.join()
        #expect(last == rounds)
    }

    @Test func `the reader is woken once for a batch`() {
        let counter = Counter()
        let mailbox = Mailbox<Int> { counter.increment() }
        for number in 0..<100 { mailbox.post(number) }
        #expect(counter.value == 1)
        var read: [Int] = []
        mailbox.drain { read.append($0) }
        #expect(read == Array(0..<100))
        mailbox.post(100)
        #expect(counter.value == 2)
    }

    @Test func `a message posted while the box is emptied waits for the next time`() {
        let mailbox = Mailbox<Int> {}
        mailbox.post(1)
        var read: [Int] = []
        mailbox.drain {
            read.append($0)
            mailbox.post($0 + 1)
        }
        #expect(read == [1])
        #expect(!mailbox.isEmpty)
    }

    @Test func `messages that nobody read are released with the box`() {
        final class Paper: Sendable {}
        weak var watched: Paper?
        do {
            let mailbox = Mailbox<Paper> {}
            let paper = Paper()
            watched = paper
            mailbox.post(paper)
        }
        #expect(watched == nil)
    }

    final class Counter: Sendable {
        private let count = Atomic<Int>(0)

        func increment() { count.add(1, ordering: .relaxed) }

        var value: Int { count.load(ordering: .relaxed) }
    }
}
