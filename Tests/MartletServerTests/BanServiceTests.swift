import Administration
import BrokerCore
import BrokerModel
import Configuration
import MQTTCodec
import MartletTestKit
import NetworkTestKit
import Platform
import Testing
import Transports

@testable import ClusterGateway
@testable import MartletServer
@testable import ServerLoops

/// Who bans, and when it is in force.
@Suite struct BanServiceTests {
    private final class Shell {
        let shell: SimulatedShell
        let control: Mailbox<ControlLoopMessage>
        private(set) var service: BanService! = nil
        var changes: [String] = []
        var moment = Moment(milliseconds: 1000, wallMilliseconds: 1_700_000_000_000)

        init(loops: Int = 2, banAfter: OffenceLimit? = nil, flapping: OffenceLimit? = nil, sharing commands: Commands? = nil) throws
        {
            control = Mailbox {}
            shell = try SimulatedShell(loops: loops, control: control)
            service = BanService(
                BanList(), mailboxes: shell.loops.map(\.mailbox), control: control, endsWithBroker: true, log: shell.setup.log,
                changed: { [unowned self] in changes.append("\($1) \($0.target.who)") },
                share: commands.map { commands in { commands.take($0) } })
            var limits = LimitsConfiguration()
            (limits.banAfter, limits.flapping) = (banAfter, flapping)
            service.apply(limits)
        }

        func settle() {
            shell.settle()
            control.drain { message in
                switch message {
                case .bansInForce: service.isInForce()
                case .offence(let offence): service.received(offence, at: moment)
                default: break
                }
            }
        }

        var bans: [String] { service.list.all.map { "\($0.target.kind.rawValue) \($0.target.who) \($0.by)" } }
    }

    @Test func `who bans is told when every loop goes by it, and the client is gone`() throws {
        let shell = try Shell()
        let client = ShellClient("client", on: try #require(shell.shell.acceptors[0].connect()))
        client.connect()
        shell.settle()
        let target = try #require(BanTarget(.client, "client"))
        var isDone = 0
        #expect(shell.service.ban(Ban(target, by: "ann", reason: "", at: 0, until: nil)) { _ in isDone += 1 })
        #expect(isDone == 0)
        shell.settle()
        client.receive()
        #expect(isDone == 1 && client.disconnectReason == .administrativeAction)
        #expect(shell.shell.loops.allSatisfy { $0.shard.bans == shell.service.list })
        #expect(shell.service.lift(target, by: "ann") { _ in isDone += 1 })
        #expect(!shell.service.lift(target, by: "ann") { _ in isDone += 1 })
        shell.settle()
        #expect(isDone == 2 && shell.service.list.isEmpty && shell.changes == ["added client", "lifted client"])
    }

    @Test func `a ban ends when its time is over`() throws {
        let shell = try Shell()
        let target = try #require(BanTarget(.user, "anna"))
        #expect(shell.service.ban(Ban(target, by: "ann", reason: "", at: 0, until: 5000)) { _ in })
        shell.service.expire(at: 4999)
        #expect(shell.bans.count == 1)
        shell.service.expire(at: 5000)
        shell.settle()
        #expect(shell.bans.isEmpty && shell.changes == ["added anna", "expired anna"])
        #expect(shell.shell.loops.allSatisfy { $0.shard.bans.isEmpty })
    }

    @Test func `an address whose logins fail too often is banned, of IPv6 the network of its house`() throws {
        let shell = try Shell(banAfter: OffenceLimit(count: 3, windowSeconds: 60, banSeconds: 300))
        func fail(_ address: String) { shell.service.received(.failedLogin(address: address), at: shell.moment) }
        for _ in 0..<2 { fail("192.0.2.7") }
        shell.moment.milliseconds += 60_000
        for _ in 0..<2 { fail("192.0.2.7") }
        #expect(shell.bans.isEmpty)
        for address in ["192.0.2.7", "/run/martlet.sock", "2001:db8::1", "2001:db8::2", "2001:db8::3"] { fail(address) }
        #expect(shell.bans == ["peerhost 192.0.2.7 martlet_ban_after", "peerhost_net 2001:db8::/64 martlet_ban_after"])
        #expect(shell.service.list.all.first?.until == shell.moment.wallMilliseconds + 300_000)
        #expect(shell.service.list.all.first?.reason == "3 failed logins in 60 s")
    }

    private static let scope = BanScope(user: "mallory", party: "192.0.2.7")
    private static let flapping = Offence.flapping("client", scope)

    @Test func `a client that flaps is banned as one user comes with it from one address, which lifting the client's ban lifts`()
        throws
    {
        let shell = try Shell(flapping: OffenceLimit(count: 2, windowSeconds: 60, banSeconds: 300))
        shell.service.received(Self.flapping, at: shell.moment)
        #expect(shell.bans == ["clientid client martlet_flapping"])
        #expect(shell.service.list.all.map(\.target) == [BanTarget(client: "client", Self.scope)])
        let target = try #require(BanTarget(.client, "client"))
        #expect(shell.service.ban(Ban(target, by: "ann", reason: "", at: 0, until: nil)) { _ in })
        shell.service.received(Self.flapping, at: shell.moment)
        #expect(shell.bans == ["clientid client ann", "clientid client martlet_flapping"])
        #expect(shell.service.lift(target, by: "ann") { _ in } && shell.bans.isEmpty)
    }

    @Test func `what an administrator has said of an address stands, also if it ends sooner`() throws {
        let shell = try Shell(banAfter: OffenceLimit(count: 1, windowSeconds: 60, banSeconds: 300))
        let target = try #require(BanTarget(.address, "192.0.2.7"))
        #expect(shell.service.ban(Ban(target, by: "ann", reason: "", at: 0, until: 1)) { _ in })
        shell.service.received(.failedLogin(address: "192.0.2.7"), at: shell.moment)
        #expect(shell.bans == ["peerhost 192.0.2.7 ann"])
    }

    @Test func `an administrator bans however many bans the broker has made, and its oldest one gives way`() throws {
        let shell = try Shell(flapping: OffenceLimit(count: 1, windowSeconds: 60, banSeconds: 300))
        for number in 0..<150 {
            shell.moment.wallMilliseconds += 1
            shell.service.received(.flapping("made up \(number)", Self.scope), at: shell.moment)
        }
        #expect(shell.bans.count == 100 && shell.changes.count { $0.hasPrefix("lifted made up") } == 50)
        #expect(shell.changes.suffix(2) == ["lifted made up 49", "added made up 149"])
        let target = try #require(BanTarget(.user, "mallory"))
        #expect(shell.service.ban(Ban(target, by: "ann", reason: "", at: 0, until: nil)) { _ in })
    }

    @Test func `nobody is banned by options that are not set`() throws {
        let shell = try Shell()
        for _ in 0..<100 {
            shell.service.received(.failedLogin(address: "192.0.2.7"), at: shell.moment)
            shell.service.received(Self.flapping, at: shell.moment)
        }
        #expect(shell.bans.isEmpty)
    }

    // MARK: In a cluster

    /// Notes what is ordered of the bucket that nodes share, without answering.
    private final class Commands {
        var bans: [(entry: BanEntry, token: UInt64)] = []
        var joined: [AccessSubject] = []

        func take(_ command: AccessCommand) {
            switch command {
            case .ban(let entry, let token): bans.append((entry, token))
            case .joined(let subject): joined.append(subject)
            case .security: return
            }
        }
    }

    @Test func `in a cluster a ban counts when it comes back, and what is refused never`() throws {
        let commands = Commands()
        let shell = try Shell(sharing: commands)
        let ban = Ban(try #require(BanTarget(.user, "anna")), by: "ann", reason: "", at: 1, until: nil)
        var outcomes: [String?] = []
        #expect(shell.service.ban(ban) { outcomes.append($0) })
        #expect(shell.bans.isEmpty && commands.bans.map(\.entry) == [BanEntry(ban)])
        shell.service.received(commands.bans[0].entry, at: 1)
        shell.service.answered(commands.bans[0].token, nil)
        shell.settle()
        #expect(shell.bans == ["username anna ann"] && outcomes == [nil])
        #expect(shell.service.lift(ban.target, by: "bea") { outcomes.append($0) })
        shell.service.answered(commands.bans[1].token, "away")
        #expect(shell.bans.count == 1 && outcomes == [nil, "away"])
        shell.service.received(BanEntry(lifted: ban.target, by: "bea"), at: 1)
        #expect(shell.bans.isEmpty && shell.changes == ["added anna", "lifted anna"])
    }

    @Test func `what the broker bans by itself counts at once and is told until it is known to be`() throws {
        let commands = Commands()
        let shell = try Shell(flapping: OffenceLimit(count: 1, windowSeconds: 60, banSeconds: 300), sharing: commands)
        shell.service.received(Self.flapping, at: shell.moment)
        #expect(shell.bans == ["clientid client martlet_flapping"] && commands.bans.count == 1)
        shell.service.answered(commands.bans[0].token, "away")
        let now = shell.moment.wallMilliseconds
        shell.service.received(AccessState(), at: now)
        #expect(commands.bans.count == 2 && commands.joined == [])
        shell.service.answered(commands.bans[1].token, nil)
        shell.service.expire(at: now)
        #expect(commands.bans.count == 2 && commands.joined == [.bans] && shell.bans.count == 1)
        // Lifted while this node was away.
        shell.service.received(AccessState(joined: [.bans]), at: now)
        #expect(shell.bans.isEmpty && commands.bans.count == 2)
    }

    @Test func `in a cluster lifting a client's ban lifts what there is of it, and is told when all is`() throws {
        let commands = Commands()
        let shell = try Shell(flapping: OffenceLimit(count: 1, windowSeconds: 60, banSeconds: 300), sharing: commands)
        shell.service.received(Self.flapping, at: shell.moment)
        shell.service.received(.flapping("client", BanScope(user: nil, party: "192.0.2.8")), at: shell.moment)
        for command in commands.bans { shell.service.answered(command.token, nil) }
        commands.bans = []
        var outcomes: [String?] = []
        #expect(shell.service.lift(try #require(BanTarget(.client, "client")), by: "ann") { outcomes.append($0) })
        #expect(commands.bans.count == 2 && commands.bans[0].entry.key != commands.bans[1].entry.key)
        for command in commands.bans {
            #expect(outcomes.isEmpty)
            shell.service.received(command.entry, at: 1)
            shell.service.answered(command.token, nil)
            shell.settle()
        }
        #expect(outcomes == [nil] && shell.bans.isEmpty)
    }

    @Test func `an entry is read as it was written`() throws {
        for user in [nil, "", "mallory"] as [EncodedString?] {
            let target = BanTarget(client: "pump", BanScope(user: user, party: "2001:db8::/64"))
            let entry = BanEntry(Ban(target, by: "martlet_flapping", reason: "", at: 7, until: 9))
            #expect(BanEntry(reading: entry.payload, isLifted: false) == entry)
            let lifted = BanEntry(lifted: target, by: "ann")
            #expect(BanEntry(reading: lifted.payload, isLifted: true) == lifted)
            #expect(
                !String(decoding: entry.payload, as: UTF8.self).contains(#""as":"clientid""#), "an earlier version would ban all")
        }
        let target = try #require(BanTarget(.network, "192.0.2.7/24"))
        for until in [nil, 2000] as [UInt64?] {
            let entry = BanEntry(Ban(target, by: "ann", reason: "\"noise\"", at: 7, until: until))
            #expect(BanEntry(reading: entry.payload, isLifted: false) == entry)
            #expect(entry.secondsToLive(at: 500) == until.map { _ in 2 + ClusterGateway.Limits.banGraceSeconds })
        }
        let lifted = BanEntry(lifted: target, by: "ann")
        #expect(
            BanEntry(reading: lifted.payload, isLifted: true) == lifted
                && lifted.secondsToLive(at: 0) == ClusterGateway.Limits.liftedBanSeconds)
        #expect(lifted.key == BanEntry(Ban(target, by: "", reason: "", at: 0, until: nil)).key)
        for text in ["", "{}", #"{"as":"clientid","who":"","by":"a","at":1}"#, #"{"as":"clientid","who":"x","by":"a","at":-1}"#] {
            #expect(BanEntry(reading: Array(text.utf8), isLifted: false) == nil)
        }
    }
}
