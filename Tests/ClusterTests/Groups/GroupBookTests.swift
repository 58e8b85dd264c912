import Testing

@testable import Cluster

struct GroupBookTests {
    private let name = ShareGroupName(shareName: Array("g".utf8), filter: Array("a/+".utf8))
    private let here = NodeID(2)
    private let there = NodeID(3)

    private func size(_ connected: Int) -> GroupSize { GroupSize(connected: connected) }

    @Test func `the parts of a node are added up, and what does not change the sum is no news`() {
        var book = GroupBook()
        let changes = [
            book.set(name, part: 0, size(2)), book.set(name, part: 1, GroupSize(connected: 1, away: 4)),
            book.set(name, part: 1, GroupSize(connected: 1, away: 4)),
            book.set(ShareGroupName(shareName: [], filter: []), part: 0, size(0)),
        ]
        #expect(changes == [true, true, false, false])
        #expect(book.letter(for: here).news == [GroupNews(number: 1, name: name, size: GroupSize(connected: 3, away: 4))])
    }

    @Test func `a node is told again until it answers, and then what is new alone`() {
        var book = GroupBook()
        func ask(_ fence: UInt64) -> [GroupSize] { book.ask(here, fence: fence).news.map(\.size) }
        func isTold(_ fence: UInt64) -> Bool { book.answered(here, fence: fence) && !book.isBehind(here) }
        _ = book.set(name, part: 0, size(1))
        #expect(ask(1) == [size(1)])
        _ = book.set(name, part: 0, size(2))
        #expect(ask(1) == [size(2)])
        // It may be the answer to the first question.
        #expect(!isTold(1))
        #expect(ask(2) == [size(2)])
        #expect(!isTold(1) && isTold(2) && book.isBehind(there))
        #expect(ask(3) == [])
    }

    @Test func `a group without members has its number until all have heard of that`() {
        var book = GroupBook()
        _ = book.set(name, part: 0, size(1))
        _ = book.set(name, part: 0, size(0))
        book.keep([here, there])
        #expect(book.name(of: 1) == name)
        for node in [here, there] {
            let told = book.ask(node, fence: 1)
            #expect(told.news.map(\.size) == [size(0)])
            _ = book.answered(node, fence: 1)
        }
        book.keep([here, there])
        #expect(book.name(of: 1) == nil)
        _ = book.set(name, part: 0, size(1))
        #expect(book.name(of: 2) == name)
    }

    @Test func `what a letter does not take goes with the next, and the fence is not complete before`() {
        var book = GroupBook()
        for number in 0..<100 {
            let name = ShareGroupName(shareName: Array("\(number)".utf8), filter: Array(repeating: 97, count: 2000))
            _ = book.set(name, part: 0, size(1))
        }
        var told: Set<UInt32> = []
        var fence: UInt64 = 0
        repeat {
            fence += 1
            let letter = book.ask(here, fence: fence)
            #expect(letter.encoded.count <= Limits.groupNewsBytesMax)
            told.formUnion(letter.news.map(\.number))
        } while !book.answered(here, fence: fence)
        #expect(told.count == 100 && fence == 4)
    }

    @Test func `a letter is read as it was written, and no part that ends within an entry is`() {
        let letter = GroupLetter(
            through: 1000, news: [GroupNews(number: 300, name: name, size: GroupSize(connected: 1, away: 200))])
        letter.encoded.withUnsafeBytes { all in
            #expect(GroupLetter(reading: all) == letter)
            for count in 5..<all.count {
                #expect(GroupLetter(reading: UnsafeRawBufferPointer(rebasing: all[..<count])) == nil)
            }
        }
        ([2] as [UInt8]).withUnsafeBytes { #expect(GroupLetter(reading: $0) == nil) }
        #expect(GroupLetter().encoded.isEmpty)
    }
}
