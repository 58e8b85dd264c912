import MQTTCodec
import TestBasics
import Testing

@testable import Cluster

struct InterestTableTests {
    private func bytes(_ filter: String) -> [UInt8] { Array(filter.utf8) }

    private func words(_ changes: [InterestTable.Change]) -> [String] {
        changes.map { change in
            switch change {
            case .add(let filter): "+\(String(decoding: filter, as: UTF8.self))"
            case .drop(let filter): "-\(String(decoding: filter, as: UTF8.self))"
            }
        }
    }

    @Test func `a filter is asked for once, however many want it`() {
        var table = InterestTable(filtersMax: 100)
        #expect(words(table.insert(bytes("a/b"))) == ["+a/b"])
        #expect(words(table.insert(bytes("a/b"))) == [])
        #expect(words(table.remove(bytes("a/b"))) == [])
        #expect(words(table.remove(bytes("a/b"))) == ["-a/b"])
        #expect(words(table.remove(bytes("a/b"))) == [])
    }

    @Test func `what another filter covers goes after that has come, and comes back before it goes`() {
        var table = InterestTable(filtersMax: 100)
        for filter in ["a/b", "a/+", "a", "b/a"] { _ = table.insert(bytes(filter)) }
        #expect(words(table.insert(bytes("a/#"))) == ["+a/#", "-a", "-a/+"])
        #expect(words(table.insert(bytes("a/c/d"))) == [])
        #expect(words(table.remove(bytes("a/#"))) == ["+a", "+a/+", "+a/c/d", "-a/#"])
        #expect(words(table.insert(bytes("#"))) == ["+#", "-a", "-a/+", "-a/c/d", "-b/a"])
        #expect(words(table.insert(bytes("$x/y"))) == ["+$x/y"])
        #expect(words(table.insert(bytes("+/#"))) == [])
        table.checkInvariants()
    }

    @Test func `one filter covers another exactly if it matches all its topics`() {
        let levels = ["a", "b", "$s"]
        let topics = SmallTexts.topics(levels: levels + ["c", "$t"])
        let filters = SmallTexts.filters(levels: levels)
        let matched = filters.map { filter in Set(topics.indices.filter { filter.matches(topics[$0]) }) }
        for (one, wide) in filters.enumerated() {
            for (two, narrow) in filters.enumerated() where one != two {
                // #'s own equal, of which only one may cover the other; and topics of four levels are not among these.
                guard wide != "+/#", wide.description.contains("#") || !narrow.description.contains("#") else { continue }
                var table = InterestTable(filtersMax: 100)
                _ = table.insert(wide.bytes)
                let isCovered = table.insert(narrow.bytes).isEmpty
                #expect(isCovered == matched[one].isSuperset(of: matched[two]), "\(wide) and \(narrow)")
            }
        }
    }

    @Test(arguments: Seeds.parts(12, perPart: 6))
    func `what is asked for matches all that is wanted, at every step`(seeds: ClosedRange<UInt64>) {
        for seed in seeds {
            var random = SeededGenerator(seed: seed)
            var table = InterestTable(filtersMax: 2 + random.below(10))
            let filters = SmallTexts.filters(levels: ["a", "b", "$s"])
            let topics = SmallTexts.topics(levels: ["a", "b", "$s"]).filter { $0.bytes.count > 3 }
            var wanted: [TopicFilter] = []
            var asked: Set<[UInt8]> = []
            for _ in 0..<40 {
                let isInsert = wanted.isEmpty || random.below(5) < (random.oneIn(2) ? 2 : 4)
                let filter = isInsert ? filters[random.below(filters.count)] : wanted.remove(at: random.below(wanted.count))
                let before = wanted
                let changes = isInsert ? table.insert(filter.bytes) : table.remove(filter.bytes)
                if isInsert { wanted.append(filter) }
                for change in changes {
                    switch change {
                    case .add(let filter): #expect(asked.insert(filter).inserted)
                    case .drop(let filter): #expect(asked.remove(filter) != nil)
                    }
                    if case .drop = change { expectCovered(isInsert ? before : wanted, asked, topics, seed) }
                }
                expectCovered(wanted, asked, topics, seed)
                #expect(table.asked == asked.sorted { $0.lexicographicallyPrecedes($1) })
                table.checkInvariants()
            }
        }
    }

    private func expectCovered(_ wanted: [TopicFilter], _ asked: Set<[UInt8]>, _ topics: [TopicName], _ seed: UInt64) {
        let asked = asked.compactMap { TopicFilter($0) }
        for topic in topics where wanted.contains(where: { $0.matches(topic) }) && !asked.contains(where: { $0.matches(topic) }) {
            Issue.record("seed \(seed): \(topic) is wanted by \(wanted) and \(asked) does not match it: \(Seeds.replay(seed))")
        }
    }

    @Test func `beyond the bound filters are cut to prefixes, and whole again when there are half as many`() {
        var table = InterestTable(filtersMax: 10)
        for index in 0..<10 { _ = table.insert(bytes("d/\(index)/state")) }
        #expect(table.levelsMax == nil)
        let changes = words(table.insert(bytes("d/10/state")))
        #expect(changes.first == "+d/#" && changes.count == 11)
        #expect(table.levelsMax != nil && table.asked.count == 1)
        #expect(words(table.insert(bytes("d/11/state"))) == [])
        for index in 0..<6 { #expect(words(table.remove(bytes("d/\(index)/state"))) == []) }
        #expect(table.levelsMax != nil)
        let mended = words(table.remove(bytes("d/6/state")))
        #expect(mended == ["+d/10/state", "+d/11/state", "+d/7/state", "+d/8/state", "+d/9/state", "-d/#"])
        #expect(table.levelsMax == nil)
    }

    @Test func `where even the first levels are too many, all is asked for`() {
        var table = InterestTable(filtersMax: 10)
        for index in 0..<12 { _ = table.insert(bytes("\(index)/x")) }
        _ = table.insert(bytes("$a/x"))
        #expect(table.asked == [bytes("#"), bytes("$a/#")])
        // Those of the broker's own root are not one, however few levels are left: nothing is made anew for each of
        // them.
        for index in 0..<12 { #expect(words(table.insert(bytes("$\(index)/x"))) == ["+$\(index)/#"]) }
    }
}
