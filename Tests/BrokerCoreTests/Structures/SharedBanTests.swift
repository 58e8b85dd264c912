import BrokerModel
import Testing

/// What a node makes of its bans and those that a cluster has.
struct SharedBanTests {
    private func ban(_ who: String, reason: String = "") throws -> Ban {
        Ban(try #require(BanTarget(.client, who)), by: "tests", reason: reason, at: 1, until: nil)
    }

    private func list(_ names: String...) throws -> BanList {
        var list = BanList()
        for name in names { _ = list.add(try ban(name)) }
        return list
    }

    @Test func `a node that joins brings its own, and the cluster's stand`() throws {
        let shared = [try ban("theirs"), try ban("both", reason: "theirs")]
        let merged = try list("own", "both").merged(with: shared, keeping: [], hasJoined: false)
        #expect(merged.list.all.map(\.target.who) == ["both", "own", "theirs"])
        #expect(merged.list.all.map(\.reason) == ["theirs", "", ""])
        #expect(merged.offered.map(\.target.who) == ["own"])
    }

    @Test func `what a node has and the cluster does not was lifted, if it has joined`() throws {
        let merged = try list("lifted", "both").merged(with: [try ban("both"), try ban("theirs")], keeping: [], hasJoined: true)
        #expect(merged.list.all.map(\.target.who) == ["both", "theirs"] && merged.offered == [])
    }

    @Test func `what the broker did by itself meanwhile stays and is told`() throws {
        let own = try ban("restless", reason: "own")
        var list = try list("lifted")
        _ = list.add(own)
        let merged = list.merged(with: [try ban("restless", reason: "theirs")], keeping: [own.target], hasJoined: true)
        #expect(merged.list.all == [own] && merged.offered == [own])
    }
}
