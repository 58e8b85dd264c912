import MQTTCodec
import Testing

@testable import BrokerModel

/// What is remembered is bounded in entries and in bytes, and what strangers have written in it is cut.
struct RecentEntriesTests {
    private static let place = MemoryLayout<(Int, Int)?>.stride

    @Test func `the oldest entries go for the next one, by their number or by their bytes`() {
        var recent = RecentEntries<Int>(countMax: 100, bytesMax: 100 * (Self.place + 50))
        var model: [(entry: Int, bytes: Int)] = []
        for number in 0..<2000 {
            let bytes = number * 7919 % 400
            recent.add(number, textBytes: bytes)
            model.append((number, bytes + Self.place))
            while model.count > 100 || model.reduce(0, { $0 + $1.bytes }) > recent.bytesMax { model.removeFirst() }
            #expect(recent.all == model.map(\.entry) && recent.byteCount == model.reduce(0) { $0 + $1.bytes })
            #expect(recent.entry(ofAge: 0) == number && recent.last(3) == model.suffix(3).map(\.entry))
        }
        #expect(recent.count < 100 && recent.entry(ofAge: recent.count) == nil && recent.last(1000).count == recent.count)
    }

    @Test func `what has no room alone is not kept, and takes nobody's place`() {
        var recent = RecentEntries<Int>(countMax: 10, bytesMax: 1000)
        recent.add(1, textBytes: 0)
        recent.add(2, textBytes: 1000)
        #expect(recent.all == [1])
        var none = RecentEntries<Int>(countMax: 10, bytesMax: 0)
        none.add(1, textBytes: 0)
        #expect(none.isEmpty && none.all == [])
    }

    @Test func `a long text is cut between characters, says so, and equals none that is not cut`() {
        let max = CutText.keptBytes
        let whole = String(repeating: "x", count: max)
        #expect(CutText.cut(whole) == whole)
        #expect(CutText.cut(whole + "y") == whole + "...(\(max + 1) bytes)")
        #expect(
            CutText.cut(String(repeating: "x", count: max - 1) + "éé") == String(repeating: "x", count: max - 1)
                + "...(\(max + 3) bytes)")
        for count in max + 1...max + 10 {
            for text in [String(repeating: "x", count: count), String(repeating: "€", count: count)] {
                #expect(CutText.cut(text).utf8.count > max && EncodedString(CutText.cut(Array(text.utf8))) != nil)
            }
        }
        let hashing = TopicHash(seed: 3)
        func name(_ text: String) -> EncodedString { EncodedString(text) ?? "" }
        let (one, other) = (name(whole + "1"), name(whole + "2"))
        #expect(one.cut == other.cut && one.cut(by: hashing) != other.cut(by: hashing))
        #expect(one.cut(by: hashing) == name(whole + "1").cut(by: hashing))
    }
}
