import Testing

@testable import Bytes

/// A row as one version has it.
private struct Early: FieldCoded, Equatable {
    var name = ""
    var count: UInt32 = 7
    var end: UInt64?
    var content: [UInt8] = []
    var isOpen = false

    static let blank = Early()

    mutating func code(_ coder: inout some FieldCoder) {
        coder.field(1, &name)
        coder.field(2, &count, mostly: 7)
        coder.field(4, &end)
        coder.field(5, &content, mostly: [])
        coder.field(6, &isOpen, mostly: false)
    }
}

/// The same as a later one has it: with a field between the others, one behind them, and one that has to be there.
private struct Late: FieldCoded, Equatable {
    enum Kind: UInt8 { case left = 1, right }

    var early = Early()
    var middle: UInt16 = 0
    var kind: Kind?

    static let blank = Late()

    mutating func code(_ coder: inout some FieldCoder) {
        coder.field(1, &early.name)
        coder.field(2, &early.count, mostly: 7)
        coder.field(3, &middle, mostly: 0)
        coder.field(4, &early.end)
        coder.field(5, &early.content, mostly: [])
        coder.field(6, &early.isOpen, mostly: false)
        coder.field(9, &kind, as: { $0.rawValue }, Kind.init(rawValue:))
    }
}

@Suite struct TaggedFieldsTests {
    private func read<Value: FieldCoded>(_ bytes: [UInt8], as type: Value.Type = Value.self) -> Value? {
        bytes.withUnsafeBytes { Value(fields: $0) }
    }

    @Test func `what is left out is what it mostly is`() {
        #expect(Early(name: "ab").encodedFields == [1, 1, 2, 0x61, 0x62])
        #expect(Early(name: "", count: 0).encodedFields == [2, 1, 0, 2, 0])
        #expect(
            Early(name: "", count: 0x01_0000, end: .max, isOpen: true).encodedFields
                == [4, 1, 0, 2, 3, 0, 0, 1, 4, 8, 255, 255, 255, 255, 255, 255, 255, 255, 6, 1, 1])
    }

    @Test(arguments: [0, 1, 127, 128, 129, 16_383, 16_384, 100_000]) func `what is written is read, of any length`(count: Int) {
        let row = Early(name: "n", count: 9, end: 0, content: [UInt8](repeating: 5, count: count), isOpen: true)
        #expect(read(row.encodedFields) == row)
    }

    @Test func `neither a part of a value is one, nor is more`() {
        let bytes = Early(name: "n", count: 9, end: 1, content: [UInt8](repeating: 5, count: 200), isOpen: true).encodedFields
        for count in bytes.indices { #expect(read(Array(bytes[..<count]), as: Early.self) == nil, "\(count) bytes") }
        #expect(read(bytes + [0], as: Early.self) == nil)
    }

    @Test func `a later version reads an earlier one's value, and that reads the later one's without what is new`() {
        let early = Early(name: "n", count: 9, end: 1, content: [1, 2], isOpen: true)
        #expect(read(early.encodedFields) == Late(early: early))
        #expect(read(Late(early: early, middle: 3, kind: .right).encodedFields) == early)
    }

    @Test(
        arguments: [
            [], [0], [1], [1, 2, 1, 9], [1, 0, 0], [2, 1, 0, 1, 0], [2, 2, 1, 9, 1, 0], [2, 1, 0, 2, 2, 9, 0],
            [2, 1, 0, 2, 5, 1, 1, 1, 1, 1],
            [2, 1, 0, 6, 1, 2], [1, 1, 1, 0xFF], [1, 1, 0x80, 0], [1, 1, 0x80, 0x80, 0x80, 0x80, 0x80], [2, 1, 0, 9, 3, 1],
        ] as [[UInt8]])
    func `bytes that nobody writes are no value`(bytes: [UInt8]) {
        #expect(read(bytes, as: Early.self) == nil)
    }

    @Test func `a value that stands for none is refused`() {
        #expect(read([2, 1, 0, 9, 1, 2]) == Late(kind: .right))
        #expect(read([2, 1, 0, 9, 1, 3], as: Late.self) == nil)
    }
}
