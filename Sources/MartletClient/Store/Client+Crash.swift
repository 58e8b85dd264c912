internal import ClientStore
internal import Transports

extension Client {
    /// Ends as a process does that dies: without a goodbye, and what the store has not been told yet is lost. For tests
    /// and simulation.
    package func crash() async {
        (storage as? MemoryStore)?.crash()
        (storage as? FileStore)?.crash()
        let call = AwaitedOutcome<Void>()
        engine.post(.records { $0.die(call) })
        _ = await call.outcome(cancelled: {})
    }
}

extension ClientEngine {
    /// Ends in the loop's next turn, without a goodbye; all who wait hear that the client has ended. For a simulation
    /// that is over.
    package func dieSoon() { post(.records { $0.die(AwaitedOutcome()) }) }

    fileprivate func die(_ call: AwaitedOutcome<Void>) {
        switch phase {
        case .dialing(let dialer): dialer.cancel()
        case .opening(let connection), .online(let connection), .closing(let connection, _): lose(connection)
        case .idle, .preparing, .pausing, .refused, .ended: break
        }
        phase = .ended
        records?.failure = .ended
        end()
        state.set(.ended)
        state.finish()
        call.complete(.success(()))
    }
}
