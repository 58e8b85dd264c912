import BrokerCore
import MQTTCodec
import Testing

@testable import Persistence

/// What is not mosquitto's, or not whole, is refused with its place; nothing that a file can hold ends the program.
@Suite struct MosquittoDamageTests {
    @Test func `a file that was cut is refused, wherever no chunk ends`() throws {
        let whole = MosquittoFile.real
        let ends = try Self.chunkEnds(whole)
        for count in 0..<whole.count {
            let cut = Array(whole[..<count])
            if ends.contains(count) {
                #expect(throws: Never.self) { try MosquittoDatabase(cut) }
            } else {
                let error = #expect(throws: MosquittoDatabaseError.self) { try MosquittoDatabase(cut) }
                #expect(error.map { $0.offset <= count } ?? false)
            }
        }
    }

    @Test func `a flipped byte is refused or read, and what is read can be imported`() throws {
        let whole = MosquittoFile.real
        var refused = 0
        for offset in whole.indices {
            for mask: UInt8 in [1, 2, 16, 128, 255] {
                var bytes = whole
                bytes[offset] ^= mask
                if !Self.survives(bytes) { refused += 1 }
            }
        }
        #expect(refused > whole.count)
    }

    @Test func `no length is believed that the file does not have`() throws {
        let whole = MosquittoFile.real
        for offset in whole.indices.dropLast(3) {
            for value: UInt32 in [.max, 0x7FFF_FFFF, 0x8000_0000, 0, UInt32(whole.count)] {
                var bytes = whole
                bytes.replaceSubrange(offset..<offset + 4, with: MosquittoFile.big(value))
                _ = Self.survives(bytes)
            }
        }
    }

    @Test func `an error says which byte of which record is wrong, and why`() throws {
        var file = MosquittoFile(version: 6)
        let start = file.bytes.count + 8
        file.append(5, MosquittoFile.big(UInt32(0)) + [0, 1, 0, 3] + [3, 0, 0, 0] + Array("aa/b".utf8))
        #expect(throws: MosquittoDatabaseError(.illegal("there is no such QoS"), at: start + 8, in: .subscription)) {
            try MosquittoDatabase(file.bytes)
        }
        let error = MosquittoDatabaseError(.illegal("there is no such QoS"), at: start + 8, in: .subscription)
        #expect("\(error)" == "byte 63, in the record of a subscription: there is no such QoS")
    }

    @Test func `files of others and formats of tomorrow are refused`() throws {
        #expect(throws: MosquittoDatabaseError(.notADatabase, at: 0, in: nil)) { try MosquittoDatabase([]) }
        #expect(throws: MosquittoDatabaseError(.notADatabase, at: 0, in: nil)) {
            try MosquittoDatabase(Array("SQLite format 3\0 and what follows".utf8))
        }
        for version: UInt32 in [0, 2, 7] {
            #expect(throws: MosquittoDatabaseError(.version(version), at: 23, in: nil)) {
                try MosquittoDatabase(MosquittoFile(version: version).bytes)
            }
        }
        var strange = MosquittoFile(version: 6)
        let start = strange.bytes.count
        strange.append(7, [1, 2, 3])
        #expect(throws: MosquittoDatabaseError(.unknownChunk(7), at: start, in: nil)) { try MosquittoDatabase(strange.bytes) }
    }

    @Test(arguments: 3...6) func `bytes behind a record's end are refused`(version: UInt32) throws {
        var file = MosquittoFile(version: version)
        file.append(4, MosquittoFile.little(UInt64(1)) + [0, 0])
        #expect(throws: MosquittoDatabaseError(.excess(2), at: file.bytes.count - 2, in: .retained)) {
            try MosquittoDatabase(file.bytes)
        }
    }

    /// Whether the bytes are taken for a database; then its rows must all be rows.
    private static func survives(_ bytes: [UInt8]) -> Bool {
        guard let database = try? MosquittoDatabase(bytes) else { return false }
        let rows = ImportedRows(of: database)
        #expect(rows.unreadable == 0)
        return true
    }

    private static func chunkEnds(_ bytes: [UInt8]) throws -> Set<Int> {
        var ends: Set<Int> = []
        var position = 23
        while position < bytes.count {
            position += 8 + bytes[position + 4..<position + 8].reduce(0) { $0 << 8 | Int($1) }
            ends.insert(position)
        }
        return ends
    }
}
