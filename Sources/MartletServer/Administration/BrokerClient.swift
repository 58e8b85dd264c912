import BrokerCore
import BrokerModel
import MQTTCodec
import Platform
import ServerLoops

/// Sends the control thread's queries and commands to the loops, and brings the answers to those who wait for them.
///
///     ask ─► message to the loop ─► BrokerShard.ask ─► Effect.reply ─► message to the control thread ─► the closure
///
/// Each closure is called once, on the control thread: with nil if the loop does not take what it is asked, or ends
/// before it answers. A loop does a bounded part of it in each turn. Belongs to the control thread.
final class BrokerClient {
    private struct Count {
        var statistics: [ShardStatistics?]
        var missing: Int
        let done: ([ShardStatistics]) -> Void
    }

    /// Where each client and each retained message is.
    let placement: ShardPlacement
    private let mailboxes: [Mailbox<LoopMessage>]
    private var lastToken: UInt64 = 0
    private var questions: [UInt64: (ShardReply?) -> Void] = [:]
    private var commands: [UInt64: (ShardCommandOutcome?) -> Void] = [:]
    private var counts: [UInt64: Count] = [:]
    private var watcher: ((PresenceEvent) -> Void)?
    private var hasEnded = false
    /// When each loop has last answered anything, in milliseconds of the loops' clock.
    private(set) var answeredAt: [UInt64]

    /// - Parameter mailboxes: the loops', by shard.
    init(placement: ShardPlacement, mailboxes: [Mailbox<LoopMessage>], now: UInt64) {
        self.placement = placement
        self.mailboxes = mailboxes
        answeredAt = Array(repeating: now, count: mailboxes.count)
    }

    var shardCount: Int { mailboxes.count }

    /// Asks a shard for a page.
    func ask(_ query: ShardQuery, of shard: Int, _ done: @escaping (ShardReply?) -> Void) {
        guard !hasEnded else { return done(nil) }
        var query = query
        query.token = nextToken()
        questions[query.token] = done
        mailboxes[shard].post(.ask(query))
    }

    /// Gives a shard a command.
    func perform(_ command: ShardCommand, to shard: Int, _ done: @escaping (ShardCommandOutcome?) -> Void) {
        guard !hasEnded else { return done(nil) }
        var command = command
        command.token = nextToken()
        commands[command.token] = done
        mailboxes[shard].post(.command(command))
    }

    /// Asks all shards what they have counted, histograms included; by shard. Of a broker that ends, nothing.
    func statistics(_ done: @escaping ([ShardStatistics]) -> Void) {
        guard !hasEnded else { return done([]) }
        let token = nextToken()
        counts[token] = Count(statistics: Array(repeating: nil, count: shardCount), missing: shardCount, done: done)
        for mailbox in mailboxes { mailbox.post(.statistics(token: token)) }
    }

    /// Publishes as the broker itself.
    ///
    /// - Parameter done: is told what PUBACK would say, and how many sessions and share groups get the message, if that
    ///   is known.
    func publish(_ packet: PublishPacket, _ done: @escaping (ReasonCode, Int?) -> Void) {
        perform(ShardCommand(.publish(packet)), to: 0) { outcome in
            guard case .published(let reason, let receivers) = outcome?.result else { return done(.serverBusy, nil) }
            done(reason, receivers)
        }
    }

    /// Has `watcher` told what happens to clients, those of one client in order; nobody from now on if it is nil.
    func watchEvents(_ watcher: ((PresenceEvent) -> Void)?) {
        self.watcher = watcher
        for mailbox in mailboxes { mailbox.post(.watchEvents(watcher != nil)) }
    }

    /// Takes a loop's answer.
    ///
    /// - Parameter now: in milliseconds.
    func received(_ answer: LoopAnswer, now: UInt64) {
        switch answer {
        case .reply(let reply): questions.removeValue(forKey: reply.token)?(reply)
        case .outcome(let outcome): commands.removeValue(forKey: outcome.token)?(outcome)
        case .event(let event): watcher?(event)
        case .declined(let token):
            questions.removeValue(forKey: token)?(nil)
            commands.removeValue(forKey: token)?(nil)
        case .statistics(let token, let shard, let statistics):
            answeredAt[shard] = now
            counted(token, shard, statistics)
        }
    }

    /// Tells a shard that its trace records are written, so that it may send more.
    func tracesTaken(by shard: Int) { mailboxes[shard].post(.tracesTaken) }

    private func counted(_ token: UInt64, _ shard: Int, _ statistics: ShardStatistics) {
        guard var count = counts.removeValue(forKey: token) else { return }
        if count.statistics[shard] == nil { count.missing -= 1 }
        count.statistics[shard] = statistics
        if count.missing == 0 { return count.done(count.statistics.compactMap { $0 }) }
        counts[token] = count
    }

    /// Completes all calls with nil, because the loops end.
    func end() {
        hasEnded = true
        let (questions, commands, counts) = (questions, commands, counts)
        (self.questions, self.commands, self.counts) = ([:], [:], [:])
        for done in questions.sorted(by: { $0.key < $1.key }) { done.value(nil) }
        for done in commands.sorted(by: { $0.key < $1.key }) { done.value(nil) }
        for count in counts.sorted(by: { $0.key < $1.key }) { count.value.done([]) }
    }

    private func nextToken() -> UInt64 {
        lastToken += 1
        return lastToken
    }
}
