import Administration
import BrokerCore
import Configuration
import EpollLoop
import MQTTCodec
import MartletTestKit
import NetworkTestKit
import Testing
import Transports

@testable import MartletServer

/// Who bans, and when it is in force.
@Suite struct BanDeskTests {
    private final class Shell {
        let shell: SimulatedShell
        let control: Mailbox<ControlLetter>
        let desk: BanDesk
        var changes: [String] = []
        var moment = Moment(milliseconds: 1000, wallMilliseconds: 1_700_000_000_000)

        init(loops: Int = 2, banAfter: OffenceLimit? = nil, flapping: OffenceLimit? = nil) throws {
            control = Mailbox {}
            shell = try SimulatedShell(loops: loops, control: control)
            desk = BanDesk(
                BanList(), mailboxes: shell.loops.map(\.mailbox), control: control, endsWithBroker: true, log: shell.setup.log)
            var limits = LimitsConfiguration()
            (limits.banAfter, limits.flapping) = (banAfter, flapping)
            desk.apply(limits)
            desk.tell = { [unowned self] in changes.append("\($1) \($0.target.who)") }
        }

        func settle() {
            shell.settle()
            control.drain { letter in
                switch letter {
                case .bansInForce: desk.isInForce()
                case .offence(let offence): desk.received(offence, at: moment)
                default: break
                }
            }
        }

        var bans: [String] { desk.list.all.map { "\($0.target.kind.rawValue) \($0.target.who) \($0.by)" } }
    }

    @Test func `who bans is told when every loop goes by it, and the client is gone`() throws {
        let shell = try Shell()
        let client = ShellClient("client", on: try #require(shell.shell.acceptors[0].connect()))
        client.connect()
        shell.settle()
        let target = try #require(BanTarget(.client, "client"))
        var isDone = 0
        #expect(shell.desk.ban(Ban(target, by: "ann", reason: "", at: 0, until: nil)) { isDone += 1 })
        #expect(isDone == 0)
        shell.settle()
        client.receive()
        #expect(isDone == 1 && client.disconnectReason == .administrativeAction)
        #expect(shell.shell.loops.allSatisfy { $0.shard.bans == shell.desk.list })
        #expect(shell.desk.lift(target, by: "ann") { isDone += 1 })
        #expect(!shell.desk.lift(target, by: "ann") { isDone += 1 })
        shell.settle()
        #expect(isDone == 2 && shell.desk.list.isEmpty && shell.changes == ["added client", "lifted client"])
    }

    @Test func `a ban ends when its time is over`() throws {
        let shell = try Shell()
        let target = try #require(BanTarget(.user, "anna"))
        #expect(shell.desk.ban(Ban(target, by: "ann", reason: "", at: 0, until: 5000)) {})
        shell.desk.expire(at: 4999)
        #expect(shell.bans.count == 1)
        shell.desk.expire(at: 5000)
        shell.settle()
        #expect(shell.bans.isEmpty && shell.changes == ["added anna", "expired anna"])
        #expect(shell.shell.loops.allSatisfy { $0.shard.bans.isEmpty })
    }

    @Test func `an address whose logins fail too often is banned, of IPv6 the network of its house`() throws {
        let shell = try Shell(banAfter: OffenceLimit(count: 3, windowSeconds: 60, banSeconds: 300))
        func fail(_ address: String) { shell.desk.received(.failedLogin(address: address), at: shell.moment) }
        for _ in 0..<2 { fail("192.0.2.7") }
        shell.moment.milliseconds += 60_000
        for _ in 0..<2 { fail("192.0.2.7") }
        #expect(shell.bans.isEmpty)
        for address in ["192.0.2.7", "/run/martlet.sock", "2001:db8::1", "2001:db8::2", "2001:db8::3"] { fail(address) }
        #expect(shell.bans == ["peerhost 192.0.2.7 martlet_ban_after", "peerhost_net 2001:db8::/64 martlet_ban_after"])
        #expect(shell.desk.list.all.first?.until == shell.moment.wallMilliseconds + 300_000)
        #expect(shell.desk.list.all.first?.reason == "3 failed logins in 60 s")
    }

    @Test func `a client that flaps is banned, and what an administrator has said for longer stands`() throws {
        let shell = try Shell(flapping: OffenceLimit(count: 2, windowSeconds: 60, banSeconds: 300))
        shell.desk.received(.flapping("client"), at: shell.moment)
        #expect(shell.bans == ["clientid client martlet_flapping"])
        let target = try #require(BanTarget(.client, "client"))
        #expect(shell.desk.ban(Ban(target, by: "ann", reason: "", at: 0, until: nil)) {})
        shell.desk.received(.flapping("client"), at: shell.moment)
        #expect(shell.bans == ["clientid client ann"])
    }

    @Test func `nobody is banned by options that are not set`() throws {
        let shell = try Shell()
        for _ in 0..<100 {
            shell.desk.received(.failedLogin(address: "192.0.2.7"), at: shell.moment)
            shell.desk.received(.flapping("client"), at: shell.moment)
        }
        #expect(shell.bans.isEmpty)
    }
}
