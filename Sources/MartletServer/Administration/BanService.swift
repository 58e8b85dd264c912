import Administration
import BrokerModel
import Configuration
import MQTTCodec
import Platform
import ServerLoops

/// The bans that administrators make, and that the broker makes by itself for what clients have done. Belongs to the
/// control thread.
///
///     change ─► every loop goes by the new list, and the first one writes it down for the store ─► done
///
/// Each loop keeps out and ends whom its list names; what is here is the one list that all others are copies of. In a
/// cluster it is itself a copy: a command goes to all nodes, and counts here too when it comes back. What the broker
/// does by itself counts here at once, and goes to the others when they can be reached.
final class BanService {
    private(set) var list: BanList
    /// How many were made since the start.
    private(set) var made: [BanKind: Int] = [:]
    /// Called with each change.
    private let changed: (Ban, BanChange) -> Void
    private let log: Log
    private let mailboxes: [Mailbox<LoopMessage>]
    private let control: Mailbox<ControlLoopMessage>
    /// Whether the list ends with the broker.
    let endsWithBroker: Bool
    private var failedLogins: BanRule?
    private var flapping: BanRule?
    /// By the party that an address belongs to.
    private var failures = OffenceCounts<String>()
    /// The calls that wait for the loops to go by the lists that they were given, in order.
    private var waiters: [() -> Void] = []
    private var isFullLogged = false
    /// Tells all nodes; nil on a broker that is alone.
    private let share: ((AccessCommand) -> Void)?
    /// Bans that this broker has made and that the other nodes do not know yet.
    private var offers: [BanTarget: BanEntry] = [:]
    /// The commands to all nodes that are under way, by token.
    private var commands: [UInt64: Command] = [:]
    private var lastToken: UInt64 = 0
    /// Whether this node's own bans are the cluster's too.
    private var hasJoined = false
    /// Whether what the nodes share was ever read.
    private var isRead = false

    private enum Command {
        case administrator(done: (String?) -> Void)
        case offer(BanEntry)
    }

    /// - Parameters:
    ///   - list: what the store has kept.
    ///   - mailboxes: the loops'.
    ///   - endsWithBroker: whether there is neither a store nor a cluster.
    ///   - changed: called with what has changed.
    ///   - share: tells all nodes; nil on a broker that is alone.
    init(
        _ list: BanList, mailboxes: [Mailbox<LoopMessage>], control: Mailbox<ControlLoopMessage>, endsWithBroker: Bool, log: Log,
        changed: @escaping (Ban, BanChange) -> Void, share: ((AccessCommand) -> Void)?
    ) {
        (self.list, self.mailboxes, self.control) = (list, mailboxes, control)
        (self.endsWithBroker, self.log) = (endsWithBroker, log)
        (self.changed, self.share) = (changed, share)
    }

    /// Applies the limits of a configuration.
    func apply(_ limits: LimitsConfiguration) {
        let wanted = limits.banAfter.map { BanRule($0) }
        if wanted != failedLogins { failures.removeAll() }
        (failedLogins, flapping) = (wanted, limits.flapping.map { BanRule($0) })
    }

    /// Bans somebody; who is connected is disconnected.
    ///
    /// - Parameter done: called when nobody of them is let in any more, or with the reason why nobody is banned.
    /// - Returns: false if there are as many bans as may be.
    func ban(_ ban: Ban, _ done: @escaping (String?) -> Void) -> Bool {
        if share != nil {
            guard list.hasRoom(for: ban) else { return false }
            perform(
                BanEntry(ban),
                .administrator { [unowned self] failure in
                    if failure == nil { made[ban.target.kind, default: 0] += 1 }
                    done(failure)
                })
            return true
        }
        guard add(ban) else { return false }
        made[ban.target.kind, default: 0] += 1
        spread { done(nil) }
        return true
    }

    /// Lifts a ban; of a client those of single users and addresses too.
    ///
    /// - Parameter done: as with `ban`.
    /// - Returns: false if there is none; then `done` is not called.
    func lift(_ target: BanTarget, by who: String, _ done: @escaping (String?) -> Void) -> Bool {
        let targets = list.targets(meant: target)
        guard !targets.isEmpty else { return false }
        guard share != nil else {
            for target in targets { remove(target, by: who) }
            spread { done(nil) }
            return true
        }
        var (left, trouble) = (targets.count, String?.none)
        for target in targets {
            perform(
                BanEntry(lifted: target, by: who),
                .administrator { failure in
                    left -= 1
                    trouble = trouble ?? failure
                    if left == 0 { done(trouble) }
                })
        }
        return true
    }

    private func add(_ ban: Ban) -> Bool {
        let oldest = list.givingWay(to: ban)
        guard list.add(ban) else { return false }
        for ban in oldest {
            offers[ban.target] = nil
            changed(ban, .lifted)
        }
        logFull(!oldest.isEmpty, ban)
        let end = ban.until.map { "until \(Timestamp.text($0))" } ?? "for ever"
        let reason = ban.reason.isEmpty ? "" : ": \(ban.reason)"
        log.write(
            .notice,
            "Banned \(ban.target.kind.rawValue) \(LoggedText(ban.target.who.utf8)) \(end) by \(ban.by)\(reason).\(Self.scope(ban.target))"
        )
        changed(ban, .added)
        return true
    }

    /// The scope of a ban, as a sentence of the log; empty for one that is for everybody.
    private static func scope(_ target: BanTarget) -> String {
        guard let scope = target.scope else { return "" }
        let user = scope.user.map { "user '\(LoggedText($0.bytes))'" } ?? "clients without a user name"
        return " It applies only to \(user) from \(LoggedText(scope.party.utf8))."
    }

    /// Logs once that the broker's own bans give way to one another.
    private func logFull(_ hasGivenWay: Bool, _ ban: Ban) {
        guard hasGivenWay, !isFullLogged else { return }
        isFullLogged = true
        log.write(
            .warning, "Warning: \(ban.by) has reached its maximum number of bans; its oldest bans are removed for new ones.")
    }

    private func remove(_ target: BanTarget, by who: String) {
        guard let ban = list.remove(target) else { return }
        log.write(.notice, "Ban removed: \(target.kind.rawValue) \(LoggedText(target.who.utf8)), by \(who).")
        changed(ban, .lifted)
    }

    /// Removes the bans that have expired.
    ///
    /// - Parameter now: milliseconds since 1970.
    func expire(at now: UInt64) {
        offers = offers.filter { $0.value.ban?.until.map { $0 > now } ?? true }
        if isRead, !offers.isEmpty { offer() }
        guard !list.isEmpty else { return }
        let expired = list.removeExpired(at: now)
        guard !expired.isEmpty else { return }
        isFullLogged = false
        for ban in expired {
            log.write(.notice, "Ban expired: \(ban.target.kind.rawValue) \(LoggedText(ban.target.who.utf8)).")
            changed(ban, .expired)
        }
        spread {}
    }

    /// Takes note that the oldest list that the loops were given is in force on all of them.
    func isInForce() {
        if !waiters.isEmpty { waiters.removeFirst()() }
    }

    /// Whether passwords that come from an address over HTTP are not looked at: it is banned for those that failed.
    /// What an administrator has banned still logs in there, so that nobody locks themselves out.
    func refusesPasswords(of address: String) -> Bool { list.ban(ofAddress: address)?.option == .failedLogins }

    /// Counts an offence, which may end in a ban.
    func received(_ offence: Offence, at now: Moment) {
        switch offence {
        case .failedLogin(let address):
            guard let rule = failedLogins, let party = AddressRange.ofParty(address),
                failures.isTooMany(party, by: rule, now: now.milliseconds),
                let target = BanTarget(party.contains("/") ? .network : .address, party)
            else { return }
            ban(
                target, rule, by: .failedLogins, "\(rule.count) failed logins in \(rule.windowMilliseconds / 1000) s", now
            )
        case .flapping(let client, let scope):
            guard let rule = flapping else { return }
            ban(
                BanTarget(client: client, scope), rule, by: .flapping,
                "\(rule.count) ended connections in \(rule.windowMilliseconds / 1000) s", now)
        }
    }

    private func ban(_ target: BanTarget, _ rule: BanRule, by option: BanOption, _ reason: String, _ now: Moment) {
        // What an administrator has said stands.
        let until = now.wallMilliseconds + rule.banMilliseconds
        if let known = list[target], known.option == nil || known.until.map({ $0 >= until }) ?? true { return }
        let ban = Ban(target, by: option.rawValue, reason: reason, at: now.wallMilliseconds, until: until)
        guard add(ban) else { return }
        made[target.kind, default: 0] += 1
        spread {}
        guard share != nil else { return }
        // A command is on its way to the servers before a later one that undoes it.
        let entry = BanEntry(ban)
        offers[target] = entry
        perform(entry, .offer(entry))
    }

    private func spread(_ done: @escaping () -> Void) {
        waiters.append(done)
        let countdown = Countdown(loops: mailboxes.count) { [control] in control.post(.bansInForce) }
        for mailbox in mailboxes { mailbox.post(.bans(list, countdown)) }
    }
}

// MARK: - In a cluster

extension BanService {
    /// Takes the bans of the cluster when all of them have been read.
    func received(_ state: AccessState, at now: UInt64) {
        (isRead, hasJoined) = (true, state.joined.contains(.bans))
        // What was being told is known to be told, or is told again.
        let wanted = list.merged(
            with: state.bans.filter { $0.until.map { $0 > now } ?? true }, keeping: Set(offers.keys), hasJoined: hasJoined)
        for ban in list.all where wanted.list[ban.target] == nil { remove(ban.target, by: "another node") }
        for ban in wanted.list.all where list[ban.target] != ban { _ = add(ban) }
        for ban in wanted.offered { offers[ban.target] = BanEntry(ban) }
        spread {}
        offer()
    }

    /// Takes a ban that was made or lifted, here or on another node.
    func received(_ entry: BanEntry, at now: UInt64) {
        guard let ban = entry.ban else {
            // Of one that was told without an answer, too.
            offers[entry.target] = nil
            guard list[entry.target] != nil else { return }
            remove(entry.target, by: entry.by)
            return spread {}
        }
        guard list[ban.target] != ban, ban.until.map({ $0 > now }) ?? true else { return }
        if add(ban) { spread {} }
    }

    /// Takes the outcome of a command.
    func answered(_ token: UInt64, _ failure: String?) {
        switch commands.removeValue(forKey: token) {
        case .administrator(let done)?:
            // Behind what has come of it.
            if let failure { done(failure) } else { spread { done(nil) } }
        case .offer(let entry)?:
            guard failure == nil else { return }
            if offers[entry.target] == entry { offers[entry.target] = nil }
            notifyJoined()
        case nil: return
        }
    }

    /// Offers all nodes the bans that this one has made by itself.
    private func offer() {
        let underWay = Set(
            commands.values.compactMap { command in if case .offer(let entry) = command { entry.target } else { nil } })
        let next = offers.values.lazy.filter { !underWay.contains($0.target) }.prefix(max(0, Limits.banOffersMax - underWay.count))
        for entry in Array(next) { perform(entry, .offer(entry)) }
        notifyJoined()
    }

    private func notifyJoined() {
        guard isRead, !hasJoined, offers.isEmpty else { return }
        hasJoined = true
        share?(.joined(.bans))
    }

    private func perform(_ entry: BanEntry, _ command: Command) {
        lastToken += 1
        commands[lastToken] = command
        share?(.ban(entry, token: lastToken))
    }
}
