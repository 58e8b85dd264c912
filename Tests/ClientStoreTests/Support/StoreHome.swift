import ClientStore
import Glibc
import Platform

/// A place where stores of both kinds can be opened again and again. Its files go with it.
final class StoreHome: Sendable {
    enum Kind: CaseIterable, Sendable { case memory, file }

    let kind: Kind
    let disk = MemoryDisk("disk")
    let directory: String

    init(_ kind: Kind = .file) {
        self.kind = kind
        var template = Array("/tmp/client-store-XXXXXX\0".utf8CString)
        _ = mkdtemp(&template)
        directory = template.withUnsafeBufferPointer { String(cString: $0.baseAddress.unsafelyUnwrapped) }
    }

    deinit {
        for rest in ["", "-wal", "-shm", "-lock", "-new"] { unlink(path + rest) }
        rmdir(directory)
    }

    var path: String { directory + "/panel.db" }

    func open(bytesMax: Int? = nil) throws(StoreError) -> any ClientStorage {
        switch kind {
        case .memory:
            disk.bytesMax = bytesMax
            return try MemoryStore(disk)
        case .file: return try FileStore(path, bytesMax: bytesMax)
        }
    }
}

extension ClientStorage {
    /// Commits and waits; throws what the storage says.
    func commitNow(_ changes: StoreChange..., waitsForRoom: Bool = true) throws {
        let box = AnswerBox<StoreError?>()
        commit(StoreBatch(changes, waitsForRoom: waitsForRoom)) { box.put($0) }
        if let error = box.take() { throw error }
    }

    func readNow(_ query: StoreQuery) throws -> StoreRows {
        let box = AnswerBox<Result<StoreRows, StoreError>>()
        read(query) { box.put($0) }
        return try box.take().get()
    }

    func crashNow() {
        (self as? MemoryStore)?.crash()
        (self as? FileStore)?.crash()
    }
}

/// Answers from another thread.
final class AnswerBox<Answer: Sendable>: @unchecked Sendable {
    private let monitor = Monitor()
    // Under the monitor.
    private var answers: [Answer] = []

    func put(_ answer: Answer) {
        monitor.withLock {
            answers.append(answer)
            monitor.signal()
        }
    }

    /// Waits for the next.
    func take() -> Answer {
        monitor.withLock {
            while answers.isEmpty { monitor.wait() }
            return answers.removeFirst()
        }
    }

    var count: Int { monitor.withLock { answers.count } }
}
