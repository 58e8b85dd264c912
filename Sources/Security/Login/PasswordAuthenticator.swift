public import BrokerModel
public import MQTTCodec

/// Checks user names and passwords against a file, away from the loops: one check of a good hash is milliseconds of work.
public final class PasswordAuthenticator: Authenticator {
    private let users: PasswordFile
    private let workers: WorkerPool

    public init(users: PasswordFile, workers: WorkerPool) {
        self.users = users
        self.workers = workers
    }

    public func authenticate(
        _ request: AuthenticationRequest, as subject: LoginSubject, reply: @escaping @Sendable (AuthenticationOutcome) -> Void
    ) -> PasswordCheck? {
        guard case .password(let userName?, let password?) = request.step, !password.isEmpty else {
            // Whoever leaves one of them out cannot be known, whatever the file says; nor can who has nothing to say.
            var hasName = false
            if case .password(_?, _) = request.step { hasName = true }
            reply(.refused(.notAuthorized, because: hasName ? .noPassword : .noUserName))
            return nil
        }
        let check = PasswordCheck(of: subject) { [users] in
            switch users.matches(user: userName, password: password) {
            case true?: reply(.accepted(userName: userName, data: nil))
            // mosquitto's answer, and the same for a wrong name as for a wrong password.
            case false?: reply(.refused(.notAuthorized, because: users.knows(userName) ? .wrongPassword : .unknownUser))
            case nil: reply(.refused(.serverBusy))
            }
        } refuse: {
            reply(.refused(.serverBusy))
        }
        workers.submit(check)
        return check
    }

    public func keeps(_ userName: EncodedString, of earlier: any Authenticator) -> Bool {
        guard let earlier = earlier as? PasswordAuthenticator else { return false }
        return earlier === self || users.hasSameEntry(of: userName, as: earlier.users)
    }
}
