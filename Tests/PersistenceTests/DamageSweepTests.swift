import Glibc
import Testing

@testable import BrokerModel
@testable import Persistence

/// A byte of a file that is not what it was, anywhere; and files cut off at every length. What is loaded is what was
/// committed, or it is refused with a reason; what is repaired holds nothing that was never written.
@Suite(.timeLimit(.minutes(10))) struct DamageSweepTests {
    /// A store's files as they lie on the disk, and every row that ever stood in it.
    private struct Sample {
        let files: [(name: String, bytes: [UInt8])]
        let rows: [StoreRow]
        let everWritten: Set<StoreRow>
    }

    private let home: StoreHome

    init() throws { home = try StoreHome() }

    enum Kind: String, CaseIterable { case logged, moved, mixed }

    @Test(arguments: Kind.allCases)
    func `one wrong byte is found, or does no harm`(kind: Kind) throws {
        let sample = try makeSample(kind)
        let arena = try StoreHome(under: "/dev/shm")
        var refused = 0
        var tried = 0
        for file in sample.files {
            for position in Self.positions(in: file.name, file.bytes) {
                let bits: UInt8 = [1, 0x80, 0xff, 0x10][(position / 3) % 4]
                try lay(sample, in: arena)
                try patch("\(arena.path)/\(file.name)", position, file.bytes[position] ^ bits)
                tried += 1
                if try !check(
                    arena, sample, "\(file.name) at \(position) ^ \(bits)",
                    thorough: tried % 8 == 0 || file.name == SQLiteStore.defaultName && position < 100)
                {
                    refused += 1
                }
            }
        }
        #expect(tried > 600)
        #expect(refused > tried / 10)
    }

    @Test(arguments: Kind.allCases)
    func `a file that was cut short is found, or does no harm`(kind: Kind) throws {
        let sample = try makeSample(kind)
        let arena = try StoreHome(under: "/dev/shm")
        var refused = 0
        var tried = 0
        for file in sample.files {
            for length in Self.lengths(of: file.bytes.count, file.name) where length < file.bytes.count {
                try lay(sample, in: arena)
                #expect(truncate("\(arena.path)/\(file.name)", off_t(length)) == 0)
                tried += 1
                if try !check(arena, sample, "\(file.name) cut to \(length) of \(file.bytes.count)", thorough: tried % 8 == 0) {
                    refused += 1
                }
            }
        }
        #expect(refused > tried / 2)
    }

    /// Opens and loads; whether that was let through. If it is to be thorough, goes on with it then, or repairs it.
    private func check(_ arena: StoreHome, _ sample: Sample, _ place: String, thorough: Bool) throws -> Bool {
        var rows: [StoreRow] = []
        var passed: SQLiteStore?
        do {
            let store = try arena.open()
            let damages = store.load { table, key, body in
                rows.append(StoreRow(table, key, Array(body)))
                return true
            }
            if damages.isEmpty {
                #expect(rows == sample.rows, "wrong rows: \(place)")
                passed = store
            }
        } catch {
            guard case .damaged(_, let damages) = error else {
                Issue.record("\(error): \(place)")
                return false
            }
            #expect(!damages.isEmpty, "\(place)")
        }
        guard thorough else { return passed != nil }
        if let passed {
            try goOn(passed, arena, rows, place)
            return true
        }
        let store = try arena.open(StoreOptions(repair: true))
        var saved: [StoreRow] = []
        let damages = store.load { table, key, body in
            saved.append(StoreRow(table, key, Array(body)))
            return true
        }
        #expect(damages.isEmpty, "\(place)")
        #expect(!store.losses.isEmpty, "\(place)")
        #expect(sample.everWritten.isSuperset(of: saved), "\(place)")
        return false
    }

    /// Uses free pages and frees others, in a store that was let through: nothing is overwritten that should stay.
    private func goOn(_ store: SQLiteStore, _ arena: StoreHome, _ rows: [StoreRow], _ place: String) throws {
        let added = (1...20).map { StoreRow(.entry, $0 << 16, StoreRow.body($0, count: 700)) }
        let gone = rows.filter { $0.key >> 8 % 3 == 0 }
        try store.run([gone.map { (.delete, $0) }, added.map { (.insert, $0) }])
        #expect(try arena.open().allRows() == (Set(rows).subtracting(gone).union(added)).sorted(), "\(place)")
    }

    /// A store with every table filled, some of it deleted again, and its files in the state that is asked for.
    private func makeSample(_ kind: Kind) throws -> Sample {
        var rows: [StoreRow] = []
        for table in StoreTable.allCases {
            for key in UInt64(1)...40 {
                rows.append(
                    StoreRow(table, key << 8, StoreRow.body(key, count: key == 4 ? 5000 : [0, 20, 150, 400][Int(key % 4)])))
            }
        }
        // One by one at the end: the store's tail.
        let tail = (UInt64(51)...53).map { StoreRow(.entry, $0 << 8, StoreRow.body($0, count: 150)) }
        var everWritten = Set(rows + tail)
        var store = try home.open()
        let box = ReportBox()
        let gone = rows.filter { $0.key >> 8 > 20 && $0.key >> 8 < 35 }
        let changed = rows.filter { $0.key >> 8 % 7 == 0 }.map { StoreRow($0.table, $0.key, $0.body + [1]) }
        let steps: [[(JournalRecord.Operation, StoreRow)]] =
            [
                rows.map { (.insert, $0) }, gone.map { (.delete, $0) },
                changed.filter { !gone.map(\.key).contains($0.key) }.map { (.update, $0) },
            ] + tail.map { [(.insert, $0)] }
        everWritten.formUnion(changed)
        try store.start(shards: 1) { box.add($0, $1) }
        for (index, step) in steps.enumerated() {
            if kind == .mixed, index == 2 {
                store.close()
                store = try home.open()
                try store.start(shards: 1) { box.add($0, $1) }
            }
            store.commit(JournalBatch(through: UInt64(index + 1), step), of: 0)
            #expect(box.wait(for: index + 1))
        }
        if kind == .moved { store.close() }
        let crashed = try ["martlet.db", "martlet.db-wal", "martlet.db-mark"].compactMap {
            name -> (name: String, bytes: [UInt8])? in
            guard let bytes = try read("\(home.path)/\(name)"), !bytes.isEmpty else { return nil }
            return (name, Self.withoutReserve(bytes, name))
        }
        if kind != .moved { store.close() }
        return Sample(files: crashed, rows: try home.open().allRows(), everWritten: everWritten)
    }

    /// Of the zeros behind the log, two pages are enough to try.
    private static func withoutReserve(_ bytes: [UInt8], _ name: String) -> [UInt8] {
        guard name.hasSuffix("-wal"), let last = bytes.lastIndex(where: { $0 != 0 }) else { return bytes }
        return Array(bytes.prefix(last / LogFrame.size * LogFrame.size + LogFrame.headerSize + 3 * LogFrame.size))
    }

    /// Header, page headers, cell pointers, cells and the rest, closer together where a byte means more.
    private static func positions(in name: String, _ bytes: [UInt8]) -> [Int] {
        var positions = Set<Int>()
        if name.hasSuffix("-wal") {
            positions.formUnion(0..<32)
            for frame in stride(from: 32, to: bytes.count, by: 4120) {
                positions.formUnion(stride(from: frame, to: min(frame + 24, bytes.count), by: 5))
                positions.formUnion(stride(from: frame + 24, to: min(frame + 4120, bytes.count), by: 2039))
            }
        } else if name.hasSuffix("-mark") {
            positions.formUnion(bytes.indices)
        } else {
            positions.formUnion(0..<100)
            for page in stride(from: 0, to: bytes.count, by: 4096) {
                let header = page == 0 ? 100 : page
                positions.formUnion(stride(from: header, to: header + 12, by: 2))
                positions.formUnion(stride(from: header + 13, to: page + 4096, by: 503))
            }
        }
        return positions.filter { $0 < bytes.count }.sorted()
    }

    private static func lengths(of count: Int, _ name: String) -> [Int] {
        let edges = name.hasSuffix("-wal") ? stride(from: 32, to: count, by: 4120) : stride(from: 0, to: count, by: 4096)
        var lengths: Set<Int> = [0, 1, count - 1]
        for edge in edges { lengths.formUnion([edge, edge + 2000]) }
        if name.hasSuffix("-mark") { lengths.formUnion(stride(from: 0, to: count, by: 7)) }
        return lengths.sorted()
    }

    /// Puts the sample's files there, and nothing else.
    private func lay(_ sample: Sample, in arena: StoreHome) throws {
        for name in StoreHome.names(in: arena.path) { StoreHome.remove("\(arena.path)/\(name)") }
        for file in sample.files {
            let descriptor = open("\(arena.path)/\(file.name)", O_WRONLY | O_CREAT | O_TRUNC, 0o600)
            try #require(write(descriptor, file.bytes, file.bytes.count) == file.bytes.count)
            close(descriptor)
        }
    }

    private func patch(_ path: String, _ position: Int, _ byte: UInt8) throws {
        let descriptor = open(path, O_WRONLY)
        try #require(pwrite(descriptor, [byte], 1, off_t(position)) == 1)
        close(descriptor)
    }

    private func read(_ path: String) throws -> [UInt8]? {
        guard let size = DiskFile.size(path) else { return nil }
        let descriptor = open(path, O_RDONLY)
        defer { close(descriptor) }
        var bytes = [UInt8](repeating: 0, count: Int(size))
        try #require(pread(descriptor, &bytes, bytes.count, 0) == bytes.count)
        return bytes
    }
}
