import Platform

/// A plug-in for logins that many configurations of mosquitto name and that is not built in: what of it there is here.
enum ForeignPlugin {
    case goAuth
    case authPlug

    /// Known by the name of its file; nil for all others.
    init?(path: String) {
        let name = path.split(separator: "/").last.map { $0.lowercased() } ?? ""
        if name.holds("go-auth") {
            self = .goAuth
        } else if name.holds("auth-plug") || name.holds("auth_plug") {
            self = .authPlug
        } else {
            return nil
        }
    }

    /// What to do without it, as sentences.
    var advice: String {
        let files =
            switch self {
            case .goAuth:
                "Of mosquitto-go-auth's back ends there is \"files\": auth_opt_files_password_path is password_file here, and "
                    + "auth_opt_files_acl_path is acl_file."
            case .authPlug:
                "Of mosquitto-auth-plug's back ends there is \"files\": auth_opt_password_file is password_file here, and "
                    + "auth_opt_acl_file is acl_file."
            }
        return "\(files) Users of its other back ends can be kept by dynamic security."
    }

    /// What one of their options is here, as a sentence; nil if there is nothing like it.
    static func counterpart(of option: String, _ value: String) -> String? {
        switch option {
        case "files_password_path", "password_path", "password_file":
            "that is \"password_file \(value)\" here. Its hashes have another form: set each password anew with martlet passwd FILE USER."
        case "files_acl_path", "acl_path", "acl_file": "that is \"acl_file \(value)\" here."
        default: nil
        }
    }
}
