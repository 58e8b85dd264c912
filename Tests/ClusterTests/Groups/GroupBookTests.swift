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
        #expect(book.nodeMessage(for: here).news == [GroupNews(number: 1, name: name, size: GroupSize(connected: 3, away: 4))])
    }

    @Test func `a node is told again until it says that it knows, and then what is new alone`() {
        var book = GroupBook()
        var memory = GroupMemory(number: 1)
        func sizes(_ nodeMessage: GroupUpdate) -> [GroupSize] { nodeMessage.news.map(\.size) }
        _ = book.set(name, part: 0, size(1))
        let first = book.nodeMessage(for: here)
        _ = book.set(name, part: 0, size(2))
        #expect([sizes(first), sizes(book.nodeMessage(for: here))] == [[size(1)], [size(2)]])
        #expect(memory.take(first).map(\.size) == [size(1)])
        book.heard(memory.told, of: here)
        #expect(book.known(to: here) == 1 && book.isBehind(here) && book.isBehind(there))
        let second = book.nodeMessage(for: here)
        #expect(memory.take(second).map(\.size) == [size(2)])
        // What comes a second time, or late, says nothing.
        #expect(memory.take(second).isEmpty && memory.take(first).isEmpty)
        book.heard(memory.told, of: here)
        #expect(!book.isBehind(here) && book.nodeMessage(for: here).news.isEmpty)
    }

    @Test func `a group without members has its number until all have heard of that`() {
        var book = GroupBook()
        _ = book.set(name, part: 0, size(1))
        _ = book.set(name, part: 0, size(0))
        for node in [here, there] {
            book.keep([here, there])
            #expect(book.name(of: 1) == name)
            let nodeMessage = book.nodeMessage(for: node)
            #expect(nodeMessage.news.map(\.size) == [size(0)])
            book.heard(GroupWord(conversation: nodeMessage.conversation, through: nodeMessage.through), of: node)
        }
        #expect(book.keep([here, there]) == [name])
        #expect(book.name(of: 1) == nil)
        _ = book.set(name, part: 0, size(1))
        #expect(book.name(of: 2) == name)
    }

    @Test func `numbers begin again behind the last one, and none that a group has is given twice`() {
        var book = GroupBook(lastNumber: .max - 1)
        for text in ["a", "b"] {
            _ = book.set(ShareGroupName(shareName: Array(text.utf8), filter: []), part: 0, size(1))
        }
        #expect(book.nodeMessage(for: here).news.map(\.number) == [.max, 1])
        // One lap later.
        book.lastNumber = .max - 1
        _ = book.set(name, part: 0, size(1))
        #expect(book.name(of: 2) == name)
    }

    @Test func `who was away hears anew of everything, and that what does not come up is no more`() {
        var (book, memory) = (GroupBook(), GroupMemory(number: 1))
        let other = ShareGroupName(shareName: Array("h".utf8), filter: Array("#".utf8))
        _ = book.set(name, part: 0, size(1))
        _ = memory.take(book.nodeMessage(for: here))
        book.heard(memory.told, of: here)
        // It is not among the nodes for a while, in which its group ends and is forgotten.
        book.keep([])
        _ = book.set(name, part: 0, size(0))
        _ = book.set(other, part: 0, size(3))
        #expect(book.keep([]) == [name])
        book.heard(memory.told, of: here)
        #expect(
            memory.take(book.nodeMessage(for: here)) == [
                GroupNews(number: 2, name: other, size: size(3)), GroupNews(number: 1, name: name, size: size(0)),
            ])
    }

    @Test func `who has forgotten what it knew is told everything again`() {
        var book = GroupBook()
        _ = book.set(name, part: 0, size(1))
        var memory = GroupMemory(number: 1)
        let early = book.nodeMessage(for: here)
        _ = memory.take(early)
        book.heard(memory.told, of: here)
        memory = GroupMemory(number: 2)
        book.heard(memory.told, of: here)
        // A message of before, which comes late, is overruled.
        _ = memory.take(early)
        #expect(memory.take(book.nodeMessage(for: here)).map(\.size) == [size(1)])
        // What it had said before is not heard any more.
        book.heard(GroupWord(conversation: early.conversation, through: 1), of: here)
        #expect(book.isBehind(here))
    }

    @Test func `a message behind one that is missing is not taken`() {
        var (book, memory) = (GroupBook(), GroupMemory(number: 1))
        _ = book.set(name, part: 0, size(1))
        let first = book.nodeMessage(for: here)
        book.heard(GroupWord(conversation: first.conversation, through: 1), of: here)
        _ = book.set(name, part: 0, size(2))
        #expect(memory.take(book.nodeMessage(for: here)).isEmpty && memory.told == GroupWord())
    }

    @Test func `what a message does not take goes with the next, and nothing is given up between them`() {
        var (book, memory) = (GroupBook(), GroupMemory(number: 1))
        for number in 0..<100 {
            let name = ShareGroupName(shareName: Array("\(number)".utf8), filter: Array(repeating: 97, count: 2000))
            _ = book.set(name, part: 0, size(1))
        }
        func report() -> [Int] {
            var counts: [Int] = []
            repeat {
                let nodeMessage = book.nodeMessage(for: here)
                #expect(nodeMessage.encoded.count <= Limits.groupNewsBytesMax)
                let news = memory.take(nodeMessage)
                counts.append(news.count)
                #expect(news.allSatisfy { !$0.size.isEmpty })
                book.heard(memory.told, of: here)
            } while book.isBehind(here)
            return counts
        }
        let counts = report()
        #expect(counts.count == 4 && counts.reduce(0, +) == 100)
        book.keep([])
        #expect(report() == counts)
    }

    @Test func `who was told of a part is not taken to know what had changed before and has changed again`() {
        var (book, memory) = (GroupBook(newsBytesMax: 1), GroupMemory(number: 1))
        let other = ShareGroupName(shareName: Array("h".utf8), filter: Array("b".utf8))
        _ = book.set(name, part: 0, size(1))
        _ = book.set(other, part: 0, size(1))
        _ = book.set(name, part: 0, size(2))
        #expect(memory.take(book.nodeMessage(for: here)).map(\.name) == [other])
        book.heard(memory.told, of: here)
        #expect(book.known(to: here) == 2 && !book.knowsAll(here, through: 1))
        #expect(memory.take(book.nodeMessage(for: here)).map(\.name) == [name])
        book.heard(memory.told, of: here)
        #expect(book.knowsAll(here, through: 3))
    }

    @Test func `a group that has members again when all have heard of its end is not forgotten`() {
        var book = GroupBook()
        for count in [1, 0, 2] { _ = book.set(name, part: 0, size(count)) }
        let nodeMessage = book.nodeMessage(for: here)
        book.heard(GroupWord(conversation: nodeMessage.conversation, through: nodeMessage.through), of: here)
        #expect(book.keep([here]).isEmpty && book.name(of: 1) == name && book.size(of: name) == size(2))
    }

    @Test func `who says that it knows more than there is knows what there is`() {
        var book = GroupBook()
        _ = book.set(name, part: 0, size(1))
        let nodeMessage = book.nodeMessage(for: here)
        book.heard(GroupWord(conversation: nodeMessage.conversation, through: 99), of: here)
        #expect(book.known(to: here) == 1)
        _ = book.set(name, part: 0, size(2))
        #expect(book.isBehind(here) && book.nodeMessage(for: here).news.map(\.size) == [size(2)])
    }

    @Test func `who was not told knows nothing`() {
        var book = GroupBook()
        #expect(book.knowsAll(here, through: 0))
        _ = book.set(name, part: 0, size(1))
        #expect(!book.knowsAll(here, through: 1))
    }

    @Test func `a word of another conversation from who has said nothing yet leaves this one as it is`() {
        var book = GroupBook()
        _ = book.set(name, part: 0, size(1))
        let nodeMessage = book.nodeMessage(for: here)
        book.heard(GroupWord(), of: here)
        #expect(book.nodeMessage(for: here) == nodeMessage)
    }

    @Test func `a number that its group has given up names nothing`() {
        var memory = GroupMemory(number: 1)
        for number: UInt32 in [1, 2] {
            var nodeMessage = GroupUpdate(conversation: 1, after: UInt64(number) - 1, through: UInt64(number))
            nodeMessage.news = [GroupNews(number: number, name: name, size: size(1))]
            _ = memory.take(nodeMessage)
        }
        #expect(memory.name(of: 1) == nil && memory.name(of: 2) == name && memory.number(of: name) == 2)
    }

    @Test func `what was learned of a memory that was given up says nothing of the next`() {
        var memory = GroupMemory(number: 2)
        for number: UInt64 in [1, 2] {
            memory.learned(
                GroupReceipt(node: here, memory: number, word: GroupWord(conversation: number, through: 9), reply: []))
            #expect(memory.learned == (number == 2 ? GroupWord(conversation: 2, through: 9) : GroupWord()))
        }
    }

    @Test func `a message with strange flags or more members than a node can have is none`() {
        var nodeMessage = GroupUpdate(conversation: 2, after: 0, through: 1)
        var bytes = nodeMessage.encoded
        bytes[1] = 4
        bytes.withUnsafeBytes { #expect(GroupUpdate(reading: $0) == nil) }
        let many = Int(Int32.max) + 1
        for size in [GroupSize(connected: many, away: 0), GroupSize(connected: 0, away: many)] {
            nodeMessage.news = [GroupNews(number: 1, name: name, size: size)]
            nodeMessage.encoded.withUnsafeBytes { #expect(GroupUpdate(reading: $0) == nil) }
        }
    }

    @Test func `a message is read as it was written, and no part that ends within an entry is`() {
        var nodeMessage = GroupUpdate(conversation: 2, after: 999, through: 1000)
        nodeMessage.news = [GroupNews(number: 300, name: name, size: GroupSize(connected: 1, away: 200))]
        (nodeMessage.isLast, nodeMessage.readsLog, nodeMessage.known) = (false, true, GroupWord(conversation: 3, through: 400))
        nodeMessage.encoded.withUnsafeBytes { all in
            #expect(GroupUpdate(reading: all) == nodeMessage)
            for count in 0..<all.count where count != 10 {
                #expect(GroupUpdate(reading: UnsafeRawBufferPointer(rebasing: all[..<count])) == nil)
            }
        }
        ([2] as [UInt8]).withUnsafeBytes { #expect(GroupUpdate(reading: $0) == nil) }
    }
}
