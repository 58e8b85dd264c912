import MQTTCodec
import Testing

@testable import BrokerModel

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

    // MARK: What the broker does by itself

    private func flapping(_ client: Int, user: EncodedString? = nil, from party: String, at time: UInt64) -> Ban {
        let target = BanTarget(client: "c\(client)", BanScope(user: user, party: party))
        return Ban(target, by: "martlet_flapping", reason: "", at: time, until: 1 << 40)
    }

    @Test func `bans that the broker makes take no administrator's place, and the oldest one gives way to the next`() throws {
        var list = BanList()
        // From many addresses.
        let count = SharedLimits.automaticBansMax + 200
        for number in 0..<count {
            let isAdded = list.add(flapping(number, from: "\(number / 50)", at: UInt64(number)))
            #expect(isAdded)
        }
        #expect(list.count == SharedLimits.automaticBansMax && list.administratorsCount == 0)
        let newest = flapping(count - 1, from: "\((count - 1) / 50)", at: 0)
        #expect(list[newest.target] != nil && list[flapping(199, from: "3", at: 0).target] == nil)
        for number in 0..<BanList.largestCount {
            let isAdded = list.add(try ban(.client, "\(number)"))
            #expect(isAdded)
        }
        let isMore = list.add(try ban(.client, "one more"))
        #expect(!isMore && list.administratorsCount == BanList.largestCount)
        let isOwn = list.add(flapping(-1, from: "late", at: 1 << 30))
        #expect(isOwn && list.count == BanList.largestCount + SharedLimits.automaticBansMax)
        // In the place of the broker's own there is room if there is room for one more.
        let mine = try #require(BanTarget(.address, "192.0.2.1"))
        let isBroker = list.add(Ban(mine, by: "martlet_ban_after", reason: "", at: 1 << 31, until: nil))
        let (new, again) = (try ban(.address, "192.0.2.1"), try ban(.client, "1"))
        #expect(isBroker && !list.hasRoom(for: new) && list.hasRoom(for: again))
    }

    @Test func `of one user, and of one address, there are so many bans by the broker at most`() {
        var list = BanList()
        for number in 0..<200 {
            for ban in [
                flapping(number, from: "192.0.2.1", at: UInt64(number)),
                flapping(number, user: "u", from: "\(number)", at: UInt64(number)),
            ] {
                let gone = list.givingWay(to: ban).map(\.at)
                #expect(
                    gone
                        == (number < SharedLimits.automaticBansPerOriginMax
                            ? [] : [UInt64(number - SharedLimits.automaticBansPerOriginMax)]))
                _ = list.add(ban)
            }
        }
        #expect(list.count == 2 * SharedLimits.automaticBansPerOriginMax)
        let isAgain = list.givingWay(to: flapping(199, from: "192.0.2.1", at: 999))
        #expect(isAgain.isEmpty, "one that is there already has its place")
    }

    @Test func `bans are bounded in bytes, and what is lifted is given back`() throws {
        let long = String(repeating: "x", count: 60_000)
        var list = BanList()
        var count = 0
        while count < 1000, list.add(try ban(.client, "\(count)\(long)")) { count += 1 }
        #expect((100..<200).contains(count) && list.heldBytes <= SharedLimits.bansBytesMax)
        for number in 0..<100 {
            let target = BanTarget(client: "\(number)\(long)", BanScope(user: nil, party: "\(number)"))
            let isAdded = list.add(Ban(target, by: "martlet_flapping", reason: "", at: UInt64(number), until: 9))
            #expect(isAdded)
        }
        #expect(list.heldBytes <= SharedLimits.bansBytesMax + SharedLimits.automaticBansBytesMax)
        #expect(list.all.last { $0.option != nil }?.at ?? 0 > 0 && list.administratorsCount == count)
        for ban in list.all { list.remove(ban.target) }
        #expect(list.heldBytes == 0 && list.isEmpty)
    }

    @Test func `an administrator who means a client means it as every user comes with it`() throws {
        let one = flapping(1, from: "192.0.2.1", at: 1), other = flapping(1, user: "u", from: "192.0.2.1", at: 1)
        let list = list([one, other, flapping(2, from: "192.0.2.1", at: 1), try ban(.user, "c1")])
        let client = try #require(BanTarget(.client, "c1"))
        #expect(list[client] == nil && list.targets(meant: client) == [one.target, other.target])
        #expect(list.targets(meant: one.target) == [one.target])
        #expect(Set(list.all.map(\.target.sortKey)).count == 4)
    }

    @Test func `names that one makes up take only so many of the places of those who are counted`() {
        let rule = BanRule(count: 3, windowMilliseconds: 100, banMilliseconds: 1)
        var counts = OffenceCounts<Int>()
        for key in 0..<20_000 { _ = counts.isTooMany(key, from: 7, by: rule, now: 0) }
        #expect(counts.count == SharedLimits.offendersPerOriginMax)
        func told(_ key: Int, from origin: UInt64, _ times: UInt64...) -> [Bool] {
            times.map { counts.isTooMany(key, from: origin, by: rule, now: $0) }
        }
        #expect(told(-1, from: 8, 1, 2, 3) == [false, false, true])
        #expect(told(0, from: 7, 3, 4) == [false, true], "who is counted already is")
        #expect(told(-2, from: 7, 100, 101, 102) == [false, false, true], "their windows are over")
        #expect(counts.count < SharedLimits.offendersPerOriginMax)
    }

    @Test func `too many offences are those within a window, which begins with the first one`() {
        let rule = BanRule(count: 3, windowMilliseconds: 100, banMilliseconds: 1)
        var counts = OffenceCounts<Int>()
        func told(_ times: UInt64...) -> [Bool] { times.map { counts.isTooMany(1, by: rule, now: $0) } }
        #expect(told(0, 99, 100, 101, 102) == [false, false, false, false, true])
        #expect(told(103, 104, 105) == [false, false, true])
        for key in 0..<20_000 { _ = counts.isTooMany(key, by: rule, now: 200) }
        #expect(counts.count == SharedLimits.offendersMax)
        _ = counts.isTooMany(30_000, by: rule, now: 300)
        #expect(counts.count == 1, "those whose window is over have made room")
        let isTooMany = counts.isTooMany(7, by: BanRule(count: 1, windowMilliseconds: 1, banMilliseconds: 1), now: 300)
        #expect(isTooMany)
    }

    @Test func `a row of the store is read as it was written, and nothing else is one`() throws {
        var targets = try [(BanKind.client, "näme"), (.user, "u"), (.address, "2001:db8::1"), (.network, "192.0.2.0/24")].map {
            try #require(BanTarget($0.0, $0.1))
        }
        for user in [nil, "", "u"] as [EncodedString?] {
            targets.append(BanTarget(client: "näme", BanScope(user: user, party: "2001:db8::/64")))
        }
        for target in targets {
            for until in [nil, 77 as UInt64] {
                let ban = Ban(target, by: "ann", reason: "noise", at: 5, until: until)
                let bytes = StoredBan(ban).encoded()
                #expect(bytes.withUnsafeBytes { StoredBan(decoding: $0) }?.ban == ban)
                for count in 0..<bytes.count {
                    #expect(bytes[..<count].withUnsafeBytes { StoredBan(decoding: UnsafeRawBufferPointer($0)) } == nil)
                }
            }
        }
    }
}
