internal import Platform
internal import Transports

/// Asks for the addresses of names on threads of its own, for the answer may take long. Any thread may ask.
final class NameResolver: Sendable {
    typealias Answer = @Sendable (Result<[SocketAddress], ResolutionError>) -> Void

    private struct State {
        var questions = Queue<(address: ListenAddress, answer: Answer)>()
        var threadCount = 0
    }

    private let state = Locked(State())

    /// Calls `answer` on another thread with the addresses, the two families in turn, IPv6 first; or says why there is none.
    func resolve(_ host: String, port: UInt16, answer: @escaping Answer) {
        let needsThread = state.withLock { state in
            state.questions.append((ListenAddress(host: .named(host), port: port), answer))
            guard state.threadCount < Limits.resolverThreadsMax else { return false }
            state.threadCount += 1
            return true
        }
        guard needsThread else { return }
        do throws(SystemError) {
            _ = try NamedThread.start(name: "resolver") { self.work() }
        } catch {
            // Without a thread the answer is late for everybody, but there is one.
            work()
        }
    }

    /// Answers what is asked, and ends when nothing is.
    private func work() {
        while let question = next() {
            do throws(ResolutionError) {
                question.answer(.success(Self.interleaved(try question.address.resolve())))
            } catch {
                question.answer(.failure(error))
            }
        }
    }

    private func next() -> (address: ListenAddress, answer: Answer)? {
        state.withLock { state in
            let question = state.questions.popFirst()
            if question == nil { state.threadCount -= 1 }
            return question
        }
    }

    /// One of each family in turn (RFC 8305, section 4).
    static func interleaved(_ addresses: [SocketAddress]) -> [SocketAddress] {
        let families = [addresses.filter { $0.isIPv6 }, addresses.filter { !$0.isIPv6 }]
        return (0..<(families.map(\.count).max() ?? 0)).flatMap { index in
            families.compactMap { index < $0.count ? $0[index] : nil }
        }
    }
}
