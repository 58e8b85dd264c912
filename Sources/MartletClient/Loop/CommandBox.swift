internal import Platform

/// What tasks ask of a client, in order, until its loop takes it.
final class CommandBox: Sendable {
    private struct State {
        var commands: [ClientCommand] = []
        /// Payloads of QoS 0 among them.
        var byteCount = 0
    }

    private let state = Locked(State())

    /// Puts a command in. Returns whether the box was empty: then the loop has to be told.
    func post(_ command: ClientCommand) -> Bool {
        state.withLock { state in
            state.commands.append(command)
            return state.commands.count == 1
        }
    }

    /// Puts a message of QoS 0 in, if not more than that many bytes wait then. Returns whether the box was empty; nil if there is no room.
    func post(_ publication: Publication, bytesMax: Int) -> Bool? {
        let byteCount = publication.byteCount
        return state.withLock { state in
            guard state.byteCount + byteCount <= bytesMax || state.byteCount == 0 else { return nil }
            state.byteCount += byteCount
            state.commands.append(.publishAtMostOnce(publication))
            return state.commands.count == 1
        }
    }

    /// Gives out what is there, and puts the memory of an empty array in its place.
    func swap(into commands: inout [ClientCommand]) {
        state.withLock { state in
            Swift.swap(&state.commands, &commands)
            state.byteCount = 0
        }
    }
}
