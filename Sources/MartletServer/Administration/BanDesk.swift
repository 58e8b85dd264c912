import Administration
import BrokerCore
import Configuration
import EpollLoop
import MQTTCodec

/// Who is banned: by administrators, or by the broker itself for what they have done. Belongs to the control thread.
///
///     change ─► every loop goes by the new list, and the first one writes it down for the store ─► done
///
/// Each loop keeps out and ends whom its list names; what is here is the one list that all others are copies of.
final class BanDesk {
    private(set) var list: BanList
    /// How many were made since the start.
    private(set) var made: [BanKind: Int] = [:]
    /// Hears of what has changed.
    var tell: ((Ban, BanChange) -> Void)?
    private let log: Log
    private let mailboxes: [Mailbox<LoopLetter>]
    private let control: Mailbox<ControlLetter>
    /// Whether the list ends with the broker.
    let endsWithBroker: Bool
    private var failedLogins: BanRule?
    private var flapping: BanRule?
    /// By the party that an address belongs to.
    private var failures = OffenceCounts<String>()
    /// Who waits for the loops to go by the lists that they were given, in order.
    private var waiters: [() -> Void] = []
    private var isFullTold = false

    /// - Parameters:
    ///   - list: what the store has kept.
    ///   - mailboxes: the loops'.
    ///   - endsWithBroker: whether there is no store.
    init(
        _ list: BanList, mailboxes: [Mailbox<LoopLetter>], control: Mailbox<ControlLetter>, endsWithBroker: Bool, log: Log
    ) {
        (self.list, self.mailboxes, self.control) = (list, mailboxes, control)
        (self.endsWithBroker, self.log) = (endsWithBroker, log)
    }

    /// What the configuration says, now.
    func apply(_ limits: LimitsConfiguration) {
        let wanted = limits.banAfter.map { BanRule($0) }
        if wanted != failedLogins { failures.removeAll() }
        (failedLogins, flapping) = (wanted, limits.flapping.map { BanRule($0) })
    }

    /// Bans somebody; who is connected is disconnected.
    ///
    /// - Parameter done: called when nobody of them is let in any more.
    /// - Returns: false if there are as many bans as may be.
    func ban(_ ban: Ban, _ done: @escaping () -> Void) -> Bool {
        guard list.add(ban) else { return false }
        made[ban.target.kind, default: 0] += 1
        let end = ban.until.map { "until \(Timestamp.text($0))" } ?? "for ever"
        let reason = ban.reason.isEmpty ? "" : ": \(ban.reason)"
        log.write(.notice, "Banned \(ban.target.kind.rawValue) \(LoggedText(ban.target.who.utf8)) \(end) by \(ban.by)\(reason).")
        tell?(ban, .added)
        spread(done)
        return true
    }

    /// Lifts a ban.
    ///
    /// - Returns: false if there is none; then `done` is not called.
    func lift(_ target: BanTarget, by who: String, _ done: @escaping () -> Void) -> Bool {
        guard let ban = list.remove(target) else { return false }
        log.write(.notice, "Banned no more: \(target.kind.rawValue) \(LoggedText(target.who.utf8)), lifted by \(who).")
        tell?(ban, .lifted)
        spread(done)
        return true
    }

    /// Lets those in again whose time is over.
    ///
    /// - Parameter now: milliseconds since 1970.
    func expire(at now: UInt64) {
        guard !list.isEmpty else { return }
        let expired = list.removeExpired(at: now)
        guard !expired.isEmpty else { return }
        isFullTold = false
        for ban in expired {
            log.write(.notice, "Banned no more: \(ban.target.kind.rawValue) \(LoggedText(ban.target.who.utf8)), the time is over.")
            tell?(ban, .expired)
        }
        spread {}
    }

    /// Every loop goes by the list that waits longest to be in force.
    func isInForce() {
        if !waiters.isEmpty { waiters.removeFirst()() }
    }

    /// Somebody has done what may end in a ban.
    func received(_ offence: Offence, at now: Moment) {
        switch offence {
        case .failedLogin(let address):
            guard let rule = failedLogins, let party = AddressRange.ofParty(address),
                failures.isTooMany(party, by: rule, now: now.milliseconds),
                let target = BanTarget(party.contains("/") ? .network : .address, party)
            else { return }
            ban(target, rule, by: "martlet_ban_after", "\(rule.count) failed logins in \(rule.windowMilliseconds / 1000) s", now)
        case .flapping(let client):
            guard let rule = flapping, let target = BanTarget(.client, "\(client)") else { return }
            ban(
                target, rule, by: "martlet_flapping",
                "\(rule.count) ended connections in \(rule.windowMilliseconds / 1000) s", now)
        }
    }

    private func ban(_ target: BanTarget, _ rule: BanRule, by option: String, _ reason: String, _ now: Moment) {
        // What an administrator has said stands, unless it ends sooner.
        let until = now.wallMilliseconds + rule.banMilliseconds
        if let known = list[target], known.until.map({ $0 >= until }) ?? true { return }
        guard !ban(Ban(target, by: option, reason: reason, at: now.wallMilliseconds, until: until), {}), !isFullTold else { return }
        isFullTold = true
        log.write(.warning, "Warning: \(BanList.largestCount) bans are as many as may be; \(option) makes no more until some end.")
    }

    private func spread(_ done: @escaping () -> Void) {
        waiters.append(done)
        let countdown = Countdown(loops: mailboxes.count) { [control] in control.post(.bansInForce) }
        for mailbox in mailboxes { mailbox.post(.bans(list, countdown)) }
    }
}
