import BrokerModel
import TestBasics
import Testing

@testable import BrokerCore

/// How many references there are to rows that are shared.
@Suite struct SharedRowsTests {
    @Test(arguments: [UInt64(1), 2, 3]) func `references are counted as a dictionary does`(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var rows = SharedRows()
        var model: [UInt64: Int] = [:]
        var next: UInt64 = 0
        // Those among which one is chosen: most are of late.
        var known: [UInt64] = []
        for _ in 0..<4000 {
            switch random.below(10) {
            case 0..<3:
                next += UInt64(random.below(4) + 1) << 8
                known.append(next | UInt64(random.below(2)))
                model[known[known.count - 1]] = 1
            case 3..<6:
                guard let number = known.suffix(40).randomElement(using: &random), let count = model[number] else { continue }
                rows.hold(number)
                model[number] = count + 1
            default:
                guard let number = known.suffix(random.oneIn(5) ? 4000 : 40).randomElement(using: &random),
                    let count = model[number]
                else { continue }
                let isLast = rows.letGo(number)
                #expect(isLast == (count == 1))
                model[number] = count == 1 ? nil : count - 1
            }
            if random.oneIn(500) { rows.checkInvariants() }
        }
        #expect(rows.count == model.values.count { $0 > 1 })
        for (number, count) in model {
            let answers = (0..<count).map { _ in rows.letGo(number) }
            #expect(answers.last == true && !answers.dropLast().contains(true))
        }
        #expect(rows.count == 0)
    }

    @Test func `at a start the rows that nobody claims are told`() {
        var rows = SharedRows()
        for serial in UInt64(1)...5 { rows.record(serial << 8) }
        let claims = [UInt64(1), 2, 2, 9].map { rows.claim($0 << 8) }
        #expect(claims == [true, true, true, false], "there is no such row as the last one")
        let unused = rows.settle()
        #expect(unused == [3 << 8, 4 << 8, 5 << 8])
        rows.checkInvariants()
        #expect(rows.count == 1, "of the row that two have")
        let answers = [UInt64(1), 2, 2].map { rows.letGo($0 << 8) }
        #expect(answers == [true, false, true])
    }
}

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
