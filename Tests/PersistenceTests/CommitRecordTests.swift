import Glibc
import Testing

@testable import Persistence

@Suite struct CommitRecordTests {
    private let home: StoreHome

    init() throws { home = try StoreHome() }

    @Test func `the later of two slots holds, and the one before if that is torn`() throws {
        let commitRecord = try CommitRecord(home.files.commitRecord)
        #expect(try commitRecord.read() == .empty)
        try commitRecord.reset(CommitRecordSlot(seed: 5, commitNumber: 0))
        for number in UInt64(1)...5 { #expect(commitRecord.write(CommitRecordSlot(seed: 5, commitNumber: number))) }
        #expect(try commitRecord.read() == .slot(CommitRecordSlot(seed: 5, commitNumber: 5)))
        try overwrite(at: 100)
        #expect(try commitRecord.read() == .slot(CommitRecordSlot(seed: 5, commitNumber: 4)))
        try overwrite(at: 3)
        #expect(try commitRecord.read() == .damaged)
        try commitRecord.reset(CommitRecordSlot(seed: 6, commitNumber: 8))
        #expect(try CommitRecord.read(home.files.commitRecord) == .slot(CommitRecordSlot(seed: 6, commitNumber: 8)))
    }

    @Test func `one process holds it at a time`() throws {
        let first = try CommitRecord(home.files.commitRecord)
        #expect(throws: StoreError.self) { try CommitRecord(home.files.commitRecord) }
        first.unlock()
        _ = try CommitRecord(home.files.commitRecord)
        #expect(throws: StoreError.self) { try CommitRecord("\(home.path)/nowhere/commitRecord") }
    }

    private func overwrite(at offset: off_t) throws {
        let descriptor = open(home.files.commitRecord, O_WRONLY)
        try #require(pwrite(descriptor, [0x55 as UInt8], 1, offset) == 1)
        close(descriptor)
    }
}
