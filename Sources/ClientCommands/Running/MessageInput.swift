internal import Glibc
internal import MartletClient
internal import Platform

extension CommandRun {
    /// The payload of -m, -f, -s or -n; nil for lines and for a program's answers.
    func messagePayload() async throws(ArgumentError) -> [UInt8]? {
        switch arguments.source {
        case .text(let bytes): return bytes
        case .null: return []
        case .lines, nil: return nil
        case .file(let path):
            let bytes: [UInt8]
            do throws(WholeFile.Failure) {
                bytes = try WholeFile.bytes(of: path, bytesMax: Self.payloadBytesMax)
            } catch {
                throw ArgumentError("Error: Unable to open file \"\(path)\": \(Self.words(for: error)).")
            }
            return bytes
        case .input:
            var bytes: [UInt8] = []
            let input = StandardInput()
            while let chunk = await input.next() {
                bytes += chunk
                guard bytes.count <= Self.payloadBytesMax else {
                    throw ArgumentError("Error: Standard input is longer than the maximum message, \(Self.payloadBytesMax) bytes.")
                }
            }
            guard !bytes.isEmpty else { throw ArgumentError("Error: Zero length input.") }
            return bytes
        }
    }

    private static func words(for failure: WholeFile.Failure) -> String {
        switch failure {
        case .refused(let error): error.reason
        case .isDirectory: "it is a directory"
        case .isTooLarge: "it is longer than the maximum message, \(payloadBytesMax) bytes"
        }
    }

    /// What a packet holds at most.
    static let payloadBytesMax = 268_435_455
}

/// Standard input, read by a thread of its own, so that no other task waits for somebody who types.
final class StandardInput: Sendable {
    private struct State {
        var chunk: [UInt8]?
        var hasEnded = false
        var isWanted = false
        var reader: UnsafeContinuation<[UInt8]?, Never>?
    }

    private let state = Locked(State())
    private let monitor = Monitor()
    private let thread = Locked<NamedThread?>(nil)

    /// The next bytes; nil at the end. One task at a time.
    func next() async -> [UInt8]? {
        start()
        return await withUnsafeContinuation { continuation in
            state.withLock { $0.reader = continuation }
            monitor.withLock {
                state.withLock { $0.isWanted = true }
                monitor.signal()
            }
        }
    }

    private func start() {
        thread.withLock { thread in
            guard thread == nil else { return }
            thread = try? NamedThread.start(name: "standard input") { [self] in readAll() }
        }
    }

    private func readAll() {
        while true {
            monitor.withLock { while !state.withLock({ $0.isWanted }) { monitor.wait() } }
            let chunk = Self.read()
            let reader = state.withLock { state in
                state.isWanted = false
                return state.reader.take()
            }
            reader?.resume(returning: chunk)
            if chunk == nil { return }
        }
    }

    private static func read() -> [UInt8]? {
        [UInt8](unsafeUninitializedCapacity: 64 << 10) { buffer, count in
            repeat { count = max(-1, Glibc.read(0, buffer.baseAddress, buffer.count)) } while count < 0 && errno == EINTR
            count = max(0, count)
        }.nilIfEmpty
    }
}

extension [UInt8] {
    fileprivate var nilIfEmpty: [UInt8]? { isEmpty ? nil : self }
}

/// Lines out of chunks; their ends are taken off, the last one need not have one.
struct LineSplitter {
    private var rest: [UInt8] = []

    /// The lines that are whole with this chunk.
    mutating func take(_ chunk: [UInt8]) -> [[UInt8]] {
        var lines: [[UInt8]] = []
        var start = chunk.startIndex
        while let end = chunk[start...].firstIndex(of: UInt8(ascii: "\n")) {
            lines.append(rest + chunk[start..<end])
            rest = []
            start = end + 1
        }
        rest += chunk[start...]
        return lines
    }

    /// What stands behind the last end of a line; nil if nothing does.
    mutating func last() -> [UInt8]? {
        defer { rest = [] }
        return rest.isEmpty ? nil : rest
    }

    var waitingByteCount: Int { rest.count }
}
