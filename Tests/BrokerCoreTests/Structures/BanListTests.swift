import MQTTCodec
import Testing

@testable import BrokerCore

/// Who is on the list of bans.
@Suite struct BanListTests {
    private func ban(_ kind: BanKind, _ who: String, until: UInt64? = nil) throws -> Ban {
        Ban(try #require(BanTarget(kind, who)), by: "", reason: "", at: 0, until: until)
    }

    private func list(_ bans: [Ban]) -> BanList {
        bans.reduce(into: BanList()) { list, ban in
            let isAdded = list.add(ban)
            #expect(isAdded)
        }
    }

    @Test(arguments: [
        (BanKind.address, "192.0.2.7", "192.0.2.7"), (.address, "::ffff:192.0.2.7", "192.0.2.7"),
        (.address, "2001:DB8:0:0::1", "2001:db8::1"),
        (.address, "1:0:0:2:0:0:0:3", "1:0:0:2::3"), (.address, "::", "::"), (.address, "1:2:3:4:5:6:7:0", "1:2:3:4:5:6:7:0"),
        (.address, "1:0:2:3:4:5:6:7", "1:0:2:3:4:5:6:7"), (.address, "1::", "1::"),
        (.network, "192.0.2.77/24", "192.0.2.0/24"), (.network, "192.0.2.7/32", "192.0.2.7/32"),
        (.network, "2001:db8::7/33", "2001:db8::/33"),
        (.network, "2001:db8:ffff::/33", "2001:db8:8000::/33"), (.network, "10.255.0.0/9", "10.128.0.0/9"),
        (.client, "a/b", "a/b"), (.user, "192.0.2.7", "192.0.2.7"),
    ])
    func `a target is written in one way`(kind: BanKind, text: String, who: String) throws {
        let target = try #require(BanTarget(kind, text))
        #expect(target.who == who)
        #expect(BanTarget(kind, who) == target)
    }

    @Test(arguments: [
        (BanKind.address, "host"), (.address, "192.0.2.0/24"), (.address, "192.0.2.7/32"), (.network, "192.0.2.7"),
        (.network, "0.0.0.0/0"),
        (.network, "::/0"), (.network, "192.0.2.0/33"), (.client, ""), (.client, "a\u{0}b"), (.user, ""),
    ])
    func `what names nobody, or everybody, is no target`(kind: BanKind, text: String) {
        #expect(BanTarget(kind, text) == nil)
    }

    @Test func `networks of many lengths are found by what is in them, and no more once they are gone`() throws {
        let networks = [
            "10.0.0.0/8", "10.1.0.0/16", "10.1.2.0/24", "10.1.2.128/25", "2001:db8::/32", "2001:db8:1::/48", "192.0.2.1/32",
        ]
        var list = list(try networks.map { try ban(.network, $0) })
        let all = list
        func found(_ address: String) -> String? { all.ban(ofAddress: address)?.target.who }
        #expect(found("10.1.2.200") == "10.1.2.128/25" && found("10.1.2.3") == "10.1.2.0/24" && found("10.9.9.9") == "10.0.0.0/8")
        #expect(found("::ffff:10.1.9.9") == "10.1.0.0/16" && found("2001:db8:1:2::3") == "2001:db8:1::/48")
        #expect(found("11.0.0.1") == nil && found("2001:db9::1") == nil && found("/run/martlet.sock") == nil)
        #expect(found("192.0.2.1") == "192.0.2.1/32")
        for network in networks.reversed() { list.remove(try ban(.network, network).target) }
        #expect(list.ban(ofAddress: "10.1.2.200") == nil && list.isEmpty && list == BanList())
    }

    @Test func `names are of their kind alone`() throws {
        let list = list([try ban(.client, "anna")])
        #expect(list.ban(ofClient: nil, user: "anna", address: "192.0.2.1") == nil)
        #expect(list.ban(ofClient: "anna", user: nil, address: "192.0.2.1") != nil)
    }

    @Test func `there is one ban for a target, there are so many at most, and they end when their time is over`() throws {
        var list = list(try (0..<BanList.largestCount).map { try ban(.client, "\($0)", until: UInt64($0)) })
        let isMore = list.add(try ban(.user, "one more"))
        let isAnew = list.add(try ban(.client, "0"))
        #expect(!isMore && isAnew && list.count == BanList.largestCount)
        let expired = list.removeExpired(at: 9000)
        #expect(expired.count == 9000 && expired.first?.target.who == "1")
        #expect(list.count == BanList.largestCount - 9000 && list.all.first?.target.who == "0", "that one is for ever now")
    }

    @Test func `too many offences are those within a window, which begins with the first one`() {
        let rule = BanRule(count: 3, windowMilliseconds: 100, banMilliseconds: 1)
        var counts = OffenceCounts<Int>()
        func told(_ times: UInt64...) -> [Bool] { times.map { counts.isTooMany(1, by: rule, now: $0) } }
        #expect(told(0, 99, 100, 101, 102) == [false, false, false, false, true])
        #expect(told(103, 104, 105) == [false, false, true])
        for key in 0..<20_000 { _ = counts.isTooMany(key, by: rule, now: 200) }
        #expect(counts.count == Limits.offendersMax)
        _ = counts.isTooMany(30_000, by: rule, now: 300)
        #expect(counts.count == 1, "those whose window is over have made room")
        let isTooMany = counts.isTooMany(7, by: BanRule(count: 1, windowMilliseconds: 1, banMilliseconds: 1), now: 300)
        #expect(isTooMany)
    }

    @Test func `a row of the store is read as it was written, and nothing else is one`() throws {
        for (kind, who) in [(BanKind.client, "näme"), (.user, "u"), (.address, "2001:db8::1"), (.network, "192.0.2.0/24")] {
            for until in [nil, 77 as UInt64] {
                let ban = Ban(try #require(BanTarget(kind, who)), by: "ann", reason: "noise", at: 5, until: until)
                let bytes = StoredBan(ban).encoded()
                #expect(bytes.withUnsafeBytes { StoredBan(decoding: $0) }?.ban == ban)
                for count in 0..<bytes.count {
                    #expect(bytes[..<count].withUnsafeBytes { StoredBan(decoding: UnsafeRawBufferPointer($0)) } == nil)
                }
            }
        }
    }
}
