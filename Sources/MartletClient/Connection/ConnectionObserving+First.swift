extension ConnectionObserving {
    /// Waits for a connection, unless there is one. Throws `ClientError.ended` when the client ends, and `ClientError.cancelled`.
    func firstConnection() async throws(ClientError) -> ConnectedServer {
        for await server in connections() {
            if let server { return server }
        }
        throw Task.isCancelled ? .cancelled : .ended
    }
}

extension Messages {
    /// As `granted`, but ends the subscription and throws `ClientError.cancelled` when the task is cancelled.
    func grantedUnlessCancelled() async throws(ClientError) {
        let result = await withTaskCancellationHandler { () -> Result<[ReasonCode], ClientError> in
            do throws(ClientError) { return .success(try await granted()) } catch { return .failure(error) }
        } onCancel: {
            cancel()
        }
        if Task.isCancelled { throw .cancelled }
        _ = try result.get()
    }
}
