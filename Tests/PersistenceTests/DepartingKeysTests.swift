import TestBasics
import Testing

@testable import Persistence

@Suite struct DepartingKeysTests {
    @Test func `neighbours of one shard form runs, and two keys form none`() {
        #expect(runs([0x501, 0x502, 0x601, 0x701]) == ["501-701", "502-502"])
        #expect(runs([0x701, 0x501, 0x601]) == ["501-701"])
        #expect(runs([0x501, 0x601]) == ["501-501", "601-601"])
        #expect(runs([0x501, 0x501, 0x601, 0x701]) == ["501-501", "501-701"])
        #expect(runs([]).isEmpty)
    }

    @Test func `no run goes where SQLite's integers begin anew, or past the last key`() {
        let half: UInt64 = 1 << 63
        #expect(runs([half - 512, half - 256, half, half + 256, half + 512]).count == 3)
        #expect(runs([.max - 512, .max - 256, .max]).count == 1)
        #expect(runs([.max, 255]).count == 2)
    }

    @Test(arguments: UInt64(1)...50)
    func `runs cover the keys, each once, and nothing else`(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var keys = Set<UInt64>()
        for _ in 0..<200 { keys.insert(UInt64.random(in: 0...70, using: &random) << 8 | UInt64.random(in: 0...2, using: &random)) }
        var departing = DepartingKeys()
        for key in keys.shuffled(using: &random) { departing.add(key) }
        var covered: [UInt64] = []
        departing.forEachRun { first, last in covered += stride(from: first, through: last, by: 256) }
        #expect(covered.count == keys.count)
        #expect(Set(covered) == keys)
    }

    @Test func `a key that is higher than all of them is none of them`() {
        var departing = DepartingKeys()
        #expect(!departing.mayHold(1))
        departing.add(300)
        #expect(departing.mayHold(300))
        #expect(!departing.mayHold(301))
        departing.removeAll()
        #expect(!departing.mayHold(300))
    }

    private func runs(_ keys: [UInt64]) -> [String] {
        var departing = DepartingKeys()
        for key in keys { departing.add(key) }
        var runs: [String] = []
        departing.forEachRun { runs.append("\(String($0, radix: 16))-\(String($1, radix: 16))") }
        return runs
    }
}
