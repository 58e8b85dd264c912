/// Keys and tokens that joserfc 1.8 and PyJWT 2.15 have made: for Anna, by https://issuer.example, valid until
/// `now` plus an hour.
enum MadeTokens {
    static let now: Int64 = 1_800_000_000
    static let secret = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
    static let keySet = """
        {
         "keys": [
          {
           "n": "ohqoHUjDSyIcjwUKxG3VtKtieYX6IIqF2ltZJ9K3NdZSTAXewNBvKUDiN_WJLOzn3zMKkE1j4w4QuSHP5DQACQcU-z0vNgb0WwfH8OKsNkO9p\
        uouPIyrqkHM81zHmWvUtu3JpRd5Vhgq3Bx0UzHRJrebtYV6w4P6ytFqsEQGtnUY-Eb5OrwPzhzSkNFKlIavA-IjxmDEU4AnkxtlxdgP6cPsXGg7EvSKhZP\
        RCVTs8wGVslQdKEQ4sMoNA5jtq7pBshdnpsjojZ7fIvP__3nem4OJiOv5c31OEjbblSDftmhW7lhSmMYEpRkTq26a-VhRvNHtLfiK4PVJHlfsY5Ckxw",
           "e": "AQAB",
           "kid": "rsa",
           "use": "sig",
           "kty": "RSA"
          },
          {
           "crv": "P-256",
           "x": "ySymaWue4QHSCRHfqNhGWQ7hzIMG418B_6APppFfZ48",
           "y": "zYFT6hADljFIt64zvicFcVYVjNmoZTSwswjExkFgeA0",
           "kid": "p256",
           "kty": "EC"
          },
          {
           "crv": "P-384",
           "x": "e-4cOAXpxEQUg98vaV3Szf9LbP7RCsfIrvI5WoqoMQC3EMf_qok2OgfjS79GLt2m",
           "y": "e-S2H7Qy2kDgUEHyRcci3TKtEYd5ymcK0QSpkcLd2ifgrKarumVFuXHfuyBRXe83",
           "kid": "p384",
           "kty": "EC"
          },
          {
           "crv": "P-521",
           "x": "AW7U1UdxjxBKhs6dGJR0Uo8l3II1n9HqM0DwRkGLz59Aa7aC4VzL-Ug48uM9C3_k8DhaGOD26zgUiQKax1owYsyf",
           "y": "AOZ79_yQLb55dorojPS9ouSZuBvbk642A_RCMke0DO3tJE2z1Do3eIsXOAHByssX_Vx3YDg3ouv8URnUdPJjoGOW",
           "kid": "p521",
           "kty": "EC"
          },
          {
           "crv": "Ed25519",
           "x": "VZWkUUWB2HIYfCpjhGBNhZXMExlWtqEC9RH-abimUfE",
           "kid": "ed25519",
           "kty": "OKP"
          },
          {
           "crv": "Ed448",
           "x": "D5Mv7NTApsJPb13msZDu6BNTPKLtq9e9EX2teUJgiaoqLydzllBu_6Yq94CLqftK28ieDD8Whs6A",
           "kid": "ed448",
           "kty": "OKP"
          }
         ]
        }
        """
    /// A key of RSA with 1024 bits.
    static let smallKeySet = """
        {"keys": [{"n": "vSnpxYsflT15Tb0_PmHqbwuB5PzhkWaJiuu88EEpDCWwgi977FpvKzOvDu0t-CUFNFeR8F9zjGfHkuu3kqhIksjCQEPnnCEOebcAg\
        bs4z3R8dZbZqNyTO-T4jNdjYT9jd15cRBKfLInL5kQ_Con9p5NHAjCVUVPjDzSH9p-DbSk", "e": "AQAB", "kid": "small", "kty": "RSA"}]}
        """
    static let rsaPEM = """
        -----BEGIN PUBLIC KEY-----
        MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAohqoHUjDSyIcjwUKxG3V
        tKtieYX6IIqF2ltZJ9K3NdZSTAXewNBvKUDiN/WJLOzn3zMKkE1j4w4QuSHP5DQA
        CQcU+z0vNgb0WwfH8OKsNkO9puouPIyrqkHM81zHmWvUtu3JpRd5Vhgq3Bx0UzHR
        JrebtYV6w4P6ytFqsEQGtnUY+Eb5OrwPzhzSkNFKlIavA+IjxmDEU4AnkxtlxdgP
        6cPsXGg7EvSKhZPRCVTs8wGVslQdKEQ4sMoNA5jtq7pBshdnpsjojZ7fIvP//3ne
        m4OJiOv5c31OEjbblSDftmhW7lhSmMYEpRkTq26a+VhRvNHtLfiK4PVJHlfsY5Ck
        xwIDAQAB
        -----END PUBLIC KEY-----
        """
    static let p256PEM = """
        -----BEGIN PUBLIC KEY-----
        MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEySymaWue4QHSCRHfqNhGWQ7hzIMG
        418B/6APppFfZ4/NgVPqEAOWMUi3rjO+JwVxVhWM2ahlNLCzCMTGQWB4DQ==
        -----END PUBLIC KEY-----
        """
    static let ed25519PEM = """
        -----BEGIN PUBLIC KEY-----
        MCowBQYDK2VwAyEAVZWkUUWB2HIYfCpjhGBNhZXMExlWtqEC9RH+abimUfE=
        -----END PUBLIC KEY-----
        """
    /// Of the key of RSA.
    static let certificatePEM = """
        -----BEGIN CERTIFICATE-----
        MIICmzCCAYOgAwIBAgIBBzANBgkqhkiG9w0BAQsFADARMQ8wDQYDVQQDDAZzaWdu
        ZXIwHhcNMjYwMTAxMDAwMDAwWhcNMzYwMTAxMDAwMDAwWjARMQ8wDQYDVQQDDAZz
        aWduZXIwggEiMA0GCSqGSIb3DQEBAQUAA4IBDwAwggEKAoIBAQCiGqgdSMNLIhyP
        BQrEbdW0q2J5hfogioXaW1kn0rc11lJMBd7A0G8pQOI39Yks7OffMwqQTWPjDhC5
        Ic/kNAAJBxT7PS82BvRbB8fw4qw2Q72m6i48jKuqQczzXMeZa9S27cmlF3lWGCrc
        HHRTMdEmt5u1hXrDg/rK0WqwRAa2dRj4Rvk6vA/OHNKQ0UqUhq8D4iPGYMRTgCeT
        G2XF2A/pw+xcaDsS9IqFk9EJVOzzAZWyVB0oRDiwyg0DmO2rukGyF2emyOiNnt8i
        8///ed6bg4mI6/lzfU4SNtuVIN+2aFbuWFKYxgSlGROrbpr5WFG80e0t+Irg9Uke
        V+xjkKTHAgMBAAEwDQYJKoZIhvcNAQELBQADggEBAFeUr97xNCPuRQj1pA7Ycn5Z
        /0zm5IfAGRIhWW2ngMIj/FxoWqlqVz4ay3ReUZWKVvbWiHvjfe6BNO217Dlc1dSh
        R+PBmdjxJOC4DHIEtmE96ejcYo9q0LFLJpiXJeEhiHee+kDxddDQVQmf/mdnbFlV
        Vft1XDfn+As0trg2JncPfw9q8pp76xxJUOkoPt6+OEi6ubXR1Eh8UyxGB98r26lT
        fXSCBPX2MxnSlt9E+ALHrqGSsNABgflP9Dr63RmI+fI8Z6ixXKxcv9epSWX8N1ju
        h8tdzWrl8AVHKMS2sVlU0qLtHEOficSggYx63kNA6+TsW+LmQdX0IW4KX8e9cjA=
        -----END CERTIFICATE-----
        """
    static let privatePEM = """
        -----BEGIN PRIVATE KEY-----
        MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQglyfo7WYWXkZPkyMs
        D7DiXBPRVygqdOcb9hDpjh/AiCihRANCAATJLKZpa57hAdIJEd+o2EZZDuHMgwbj
        XwH/oA+mkV9nj82BU+oQA5YxSLeuM74nBXFWFYzZqGU0sLMIxMZBYHgN
        -----END PRIVATE KEY-----
        """
    static let valid: [(algorithm: String, token: String)] = [
        (
            "RS256",
            "eyJ0eXAiOiJKV1QiLCJhbGciOiJSUzI1NiIsImtpZCI6InJzYSJ9.eyJpc3MiOiJodHRwczovL2lzc3Vlci5leGFtcGxlIiwic3V"
                + "iIjoiYW5uYSIsImF1ZCI6Im1xdHQiLCJpYXQiOjE3OTk5OTk5OTAsImV4cCI6MTgwMDAwMzYwMH0.nSady5s-H_gchD3_CPLL2Sk"
                + "Jg_8aTEfDhoslNTxjPuYJOtYNTXY6M38f0OTwJaWT5cc8m2W3cRzXOE_iYxRzcz9i4zMwEWA8OpTuvOYHm2gpstpLHfjAEx_U9Er"
                + "GqLd9APc29wB4AaS56lhVW5xYZPgkYeMtbTKtqtFCXkX79l4e58UEwyHeRYo7Hw7cdbfiD-Ll9o3EKjaKvZ9kRsTtViEbO5p8MNY"
                + "vGkmPrZedTEz8nrVHjmbp6vBxoQhywFCs3OjSBkHQnDKxn29fNLRCqSUiwSqbLM6y_3QGToN61C9UvnwA6YZHjLPCg56XVhNgg5H"
                + "vU0PdiWPSLMNgnAaPuA"
        ),
        (
            "RS384",
            "eyJ0eXAiOiJKV1QiLCJhbGciOiJSUzM4NCIsImtpZCI6InJzYSJ9.eyJpc3MiOiJodHRwczovL2lzc3Vlci5leGFtcGxlIiwic3V"
                + "iIjoiYW5uYSIsImF1ZCI6Im1xdHQiLCJpYXQiOjE3OTk5OTk5OTAsImV4cCI6MTgwMDAwMzYwMH0.nSzEvMNRvCJnplr_4jDsCpo"
                + "Q_BJGHCCOs3M7IuGs0hzy5SMhMHCwcWkcYyMJ3MOYQ0wlWdozuOBd7A3qLdwyJn4OWmRolB6PmpNQUaU4U0q0qxRJODm2le-HEJA"
                + "Kve6bPNJXoyJunvN41086xqEuA22wDlqrEUk72sXETiXlnvF0Fk11sICMGwNChKACHTaju7cIMEJw-SO6Zb7VC_PLf3pTMOpyMgG"
                + "rQfK-kPFzmUU8lorwfZ0KZiAyOaI1FDBa4xrqxYp-TVSQJSRpO54S3FV-f2ItS2fgciMqSvwdcW4SABzqgTsutmZyqR_aVlXfZcx"
                + "DC_U7mXq8BUGk2s8E6w"
        ),
        (
            "RS512",
            "eyJ0eXAiOiJKV1QiLCJhbGciOiJSUzUxMiIsImtpZCI6InJzYSJ9.eyJpc3MiOiJodHRwczovL2lzc3Vlci5leGFtcGxlIiwic3V"
                + "iIjoiYW5uYSIsImF1ZCI6Im1xdHQiLCJpYXQiOjE3OTk5OTk5OTAsImV4cCI6MTgwMDAwMzYwMH0.kDno6g8p7nCnXfbD8aUry6F"
                + "IIXOExUI7QaJYZXLKrhycMmygFWXho64jyT0mY6fl8FTJxhQ-6cF63UIUsME0oJryrGdDx1xhQ3SWX6HFjScAjjvo5_h1VJNRbB7"
                + "037jvU5pfBbQGAmFqG2w44N9pjjjYiiLeZz3cBxpZNwGfHLS3bNhSTOhNKlw6i0z-FnvmltCyFuCkXEGsQoRDnpio1TOIWt8ANoP"
                + "XdjTgMGKFM4V2xRBtuNQwlFlKCFeWcWwVM4-hpWcgJhYfPbhlz5R7qiAmYSLIU8N5qUr5rIC-OzE2wEZ4CtigBy_bPlbe0UkBDDZ"
                + "PUrsPmu-ow3hcPRXhkw"
        ),
        (
            "PS256",
            "eyJ0eXAiOiJKV1QiLCJhbGciOiJQUzI1NiIsImtpZCI6InJzYSJ9.eyJpc3MiOiJodHRwczovL2lzc3Vlci5leGFtcGxlIiwic3V"
                + "iIjoiYW5uYSIsImF1ZCI6Im1xdHQiLCJpYXQiOjE3OTk5OTk5OTAsImV4cCI6MTgwMDAwMzYwMH0.KDc5Mu-Tp4lrab5KVo5J9AS"
                + "ICdndc-yn5IfionSFTqPIgJQiCteGCk1JmhpbEYdRc-FM2NbgmO1kvYefSkZyapdDpiZxhoZbvkYIIRCWcW9ebW-eWlu8n3W-g5c"
                + "iMc7I0VQJIylzXLKuCXRsCZu-ejreHUvrjFynDOTaifw3bASlPR6p9rZtEv6-fP-G7JNsfYgqtSlqkknPR_JlnKh7ST3P60N5e3L"
                + "EovAQZvbxIIPG5XRFxgL32-8gXAB9duWp5AFbJVSIqR9vTk66-5yJSTyf6pyx_pze7grkfQdiDEME7qfqBmHbUmq_eyrvau-Fkav"
                + "Q5JGCxruDOOJkb83Ygg"
        ),
        (
            "PS384",
            "eyJ0eXAiOiJKV1QiLCJhbGciOiJQUzM4NCIsImtpZCI6InJzYSJ9.eyJpc3MiOiJodHRwczovL2lzc3Vlci5leGFtcGxlIiwic3V"
                + "iIjoiYW5uYSIsImF1ZCI6Im1xdHQiLCJpYXQiOjE3OTk5OTk5OTAsImV4cCI6MTgwMDAwMzYwMH0.C9ZvHbgveBSxDhP5nS-nqzA"
                + "GPhKLo5VyhJld4s29nF57TH-8Wo0nMm0B2ZgX47-NNopFgDhUHEnLKsL5WGyYhQfKmsiFP7HL04fVczmtovLR_Wtsj-EOaRPGh7r"
                + "ORp4N7LsyMf0e-1bS3TsnrK1qylRsx80OMzhMskrOROkclvRSqE1wfgs9MbvSJiK0a7bby8n-mxmLXZ_09T4YUWhWwf2zFZubZKk"
                + "xDB1UdaKIa3Mp02XYOL-iJQwRgf1AiEaAm-Cn2En9w52K4Vs-XIrr5X3GQmnmSfoeuCmQzFEimfZzKPEZjWMDIgx-Y7rG703VbSB"
                + "WyyWk9t1YqU4otIIVCQ"
        ),
        (
            "PS512",
            "eyJ0eXAiOiJKV1QiLCJhbGciOiJQUzUxMiIsImtpZCI6InJzYSJ9.eyJpc3MiOiJodHRwczovL2lzc3Vlci5leGFtcGxlIiwic3V"
                + "iIjoiYW5uYSIsImF1ZCI6Im1xdHQiLCJpYXQiOjE3OTk5OTk5OTAsImV4cCI6MTgwMDAwMzYwMH0.VdL2GfrMKKTTCUq2gTy917k"
                + "Sot1o7O841GFFhX_ARaZ0s2qTi94f389KgB3A6Wkcl6Ai40BAPwlGrXP-bx9BcAT0MMhguX8JHB7nY1WGNWQZh9jmXpzVEzC8xiJ"
                + "tyaAt0x9dbhJdVOpZv7_Q1-r5o81c34o1bTIytXz4AfpTSr5JZaIyb5fr42w6yZQruZEZOUXeMOKYde--b3RjA1URTPpDfcxsYir"
                + "0ArODJOrv0f-6nF1FdmXH6PniS4xOihSQybyIXnFQMj20ChvU8u4qitHYCynianObkWtFaz8VzYHNs4oZQMBZQfeftR3DFSoRmQ5"
                + "J1pc-Y5pm17OuVixWtQ"
        ),
        (
            "ES256",
            "eyJ0eXAiOiJKV1QiLCJhbGciOiJFUzI1NiIsImtpZCI6InAyNTYifQ.eyJpc3MiOiJodHRwczovL2lzc3Vlci5leGFtcGxlIiwic"
                + "3ViIjoiYW5uYSIsImF1ZCI6Im1xdHQiLCJpYXQiOjE3OTk5OTk5OTAsImV4cCI6MTgwMDAwMzYwMH0.iUR7K32Q9L2vLIQoByaQC"
                + "ids5kdnahiV_1uKDUchsxVGWjMSjOuhhUtobHgke98qBEue1bkNFKGiEHBQLMFClA"
        ),
        (
            "ES384",
            "eyJ0eXAiOiJKV1QiLCJhbGciOiJFUzM4NCIsImtpZCI6InAzODQifQ.eyJpc3MiOiJodHRwczovL2lzc3Vlci5leGFtcGxlIiwic"
                + "3ViIjoiYW5uYSIsImF1ZCI6Im1xdHQiLCJpYXQiOjE3OTk5OTk5OTAsImV4cCI6MTgwMDAwMzYwMH0.WBaPtH7gVohyzVdB8gBDC"
                + "lEUOPBpfaE2l8cpxGI0ixL0T5Sdn8cOowKrNh2oychGRo8oEx3sMacACtq-77_4ypjLaoAMzs_tVbWXFqh0wcpJM2YXqGk16tks3"
                + "GrXIySf"
        ),
        (
            "ES512",
            "eyJ0eXAiOiJKV1QiLCJhbGciOiJFUzUxMiIsImtpZCI6InA1MjEifQ.eyJpc3MiOiJodHRwczovL2lzc3Vlci5leGFtcGxlIiwic"
                + "3ViIjoiYW5uYSIsImF1ZCI6Im1xdHQiLCJpYXQiOjE3OTk5OTk5OTAsImV4cCI6MTgwMDAwMzYwMH0.AWruaH5QoSLBeP7TV_Vlb"
                + "ZyBS3796HL6U5-op8hnDIJprb8ZEUku5itbIa_MOOEOqQY2IW6f1SGQnRcVn_vqX2s8AYzSjZWpl6W3dFapQJ85uJzFIOc9hWuAn"
                + "GsBt8aongNsX0ql1YbjcQTFLUzIejjVhmWFluzkben8A9Sit1QSMAoQ"
        ),
        (
            "EdDSA",
            "eyJ0eXAiOiJKV1QiLCJhbGciOiJFZERTQSIsImtpZCI6ImVkMjU1MTkifQ.eyJpc3MiOiJodHRwczovL2lzc3Vlci5leGFtcGxlI"
                + "iwic3ViIjoiYW5uYSIsImF1ZCI6Im1xdHQiLCJpYXQiOjE3OTk5OTk5OTAsImV4cCI6MTgwMDAwMzYwMH0.SEJP-yAEiXEWlhWdK"
                + "XP7GHhLI5XLu3OvoUinI0fxgEsrJ7cLIAusARQxPdMiWy7slnDgOeUbN3YUTja9hTQeCA"
        ),
        (
            "Ed25519",
            "eyJ0eXAiOiJKV1QiLCJhbGciOiJFZDI1NTE5Iiwia2lkIjoiZWQyNTUxOSJ9.eyJpc3MiOiJodHRwczovL2lzc3Vlci5leGFtcGx"
                + "lIiwic3ViIjoiYW5uYSIsImF1ZCI6Im1xdHQiLCJpYXQiOjE3OTk5OTk5OTAsImV4cCI6MTgwMDAwMzYwMH0.SS4ZrhrwtU9ChUl"
                + "cquFXqbcqxXDo2PPkzi1J9ZYIaRyOJT59e-YqRWY2vgyTME_DsRuhj-JE_Bn0PwYbYsi5Aw"
        ),
        (
            "Ed448",
            "eyJ0eXAiOiJKV1QiLCJhbGciOiJFZDQ0OCIsImtpZCI6ImVkNDQ4In0.eyJpc3MiOiJodHRwczovL2lzc3Vlci5leGFtcGxlIiwi"
                + "c3ViIjoiYW5uYSIsImF1ZCI6Im1xdHQiLCJpYXQiOjE3OTk5OTk5OTAsImV4cCI6MTgwMDAwMzYwMH0.FfQVMPnmmTDb7JkgXfC_"
                + "N0EETaV61JbcYMccVktT7QGsWbmxD8EOmOkxlw73iTDrt95xO6jeLKqAqM-IwM_tIoCGlopBYgUDRPV1pCTh0PCEt0DUQvCEFEQz"
                + "Gm_X9urDCX01bJIwth0WPt_VbZst5wkA"
        ),
        (
            "EdDSA",
            "eyJ0eXAiOiJKV1QiLCJhbGciOiJFZERTQSIsImtpZCI6ImVkNDQ4In0.eyJpc3MiOiJodHRwczovL2lzc3Vlci5leGFtcGxlIiwi"
                + "c3ViIjoiYW5uYSIsImF1ZCI6Im1xdHQiLCJpYXQiOjE3OTk5OTk5OTAsImV4cCI6MTgwMDAwMzYwMH0.ocqdmmCfsOB8XDgJ8_Fn"
                + "YaaIQDw86gKyc5VEy9bxyJ5aY4-Z-Oym-gMAlyK5SIDXPtHlMu7oY6oApKRIKaJON1DgXX5ck0JXDtrdTz_xYWFz5mjFqFnTKTW-"
                + "G2lWuZpfTEvQvjP0wPhxcw6sAYli8BkA"
        ),
        (
            "HS256",
            "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJpc3MiOiJodHRwczovL2lzc3Vlci5leGFtcGxlIiwic3ViIjoiYW5uYSIsImF"
                + "1ZCI6Im1xdHQiLCJpYXQiOjE3OTk5OTk5OTAsImV4cCI6MTgwMDAwMzYwMH0.WCd9VvRw0DO8CMTNpmvY1c7U1zlj7Zxh7S984Eo"
                + "Qimg"
        ),
        (
            "HS384",
            "eyJhbGciOiJIUzM4NCIsInR5cCI6IkpXVCJ9.eyJpc3MiOiJodHRwczovL2lzc3Vlci5leGFtcGxlIiwic3ViIjoiYW5uYSIsImF"
                + "1ZCI6Im1xdHQiLCJpYXQiOjE3OTk5OTk5OTAsImV4cCI6MTgwMDAwMzYwMH0.rWcc7Yh9a4UALctjir4y2EUeSy5W9zMN0maXKq3"
                + "l3mJHhed1J7UurAGw-9QBsAsr"
        ),
        (
            "HS512",
            "eyJhbGciOiJIUzUxMiIsInR5cCI6IkpXVCJ9.eyJpc3MiOiJodHRwczovL2lzc3Vlci5leGFtcGxlIiwic3ViIjoiYW5uYSIsImF"
                + "1ZCI6Im1xdHQiLCJpYXQiOjE3OTk5OTk5OTAsImV4cCI6MTgwMDAwMzYwMH0.cRkY5es8vVZmxoF_ryVBqvMh2iwuXGSdrpqzKRW"
                + "ILfKOeOtTL4k_mI2r_6uS9I_gUdEOgVwTCzrJRYR1L2wmrg"
        ),
    ]
    /// An HMAC whose secret is the text of RSA's public key.
    static let confused =
        "eyJhbGciOiAiSFMyNTYiLCAia2lkIjogInJzYSJ9.eyJpc3MiOiAiaHR0cHM6Ly9pc3N1ZXIuZXhhbXBsZSIsICJzdWIiOiAiYW5"
        + "uYSIsICJhdWQiOiAibXF0dCIsICJpYXQiOiAxNzk5OTk5OTkwLCAiZXhwIjogMTgwMDAwMzYwMH0.V-y8K2aIsNDZmJiV8tIQKJG"
        + "cMGXFjkMrthNPKB2DlSw"
    /// PS256 with no salt.
    static let withoutSalt =
        "eyJhbGciOiAiUFMyNTYiLCAia2lkIjogInJzYSJ9.eyJpc3MiOiAiaHR0cHM6Ly9pc3N1ZXIuZXhhbXBsZSIsICJzdWIiOiAiYW5"
        + "uYSIsICJhdWQiOiAibXF0dCIsICJpYXQiOiAxNzk5OTk5OTkwLCAiZXhwIjogMTgwMDAwMzYwMH0.fCAa__tDRBrlnT7_RI7jyWy"
        + "smwuVA0SEEzV0ltDJ5G6m-E83SOgybYsiyUHLPsBkL8rC5SVcyAcoKWRhzIbZEK_q1i8mPXA587z10xBNI-ZeoNSDBckzkNDTHb4"
        + "bDR7uBfm91_zjkG68aHv947AIALaf7UUj0tlQyurAPFtoGA88Jsi80taEne8tV-qxwxLPsI51iqXxrYH3oTpgqBO9ukdrgACP9ZJ"
        + "IscapM8ADY8AO003rpdJGUsK_CL1FdE-fbM0nFThEgA9tC-b1c5Ez_XHJJasjlO6w8kORDc7xaA8gYwfW1e4R8bGQq48e0Q6R8G5"
        + "CDZm7V7LQO42SMLUGAw"
    /// PS256 whose mask is made by SHA-1.
    static let otherMask =
        "eyJhbGciOiAiUFMyNTYiLCAia2lkIjogInJzYSJ9.eyJpc3MiOiAiaHR0cHM6Ly9pc3N1ZXIuZXhhbXBsZSIsICJzdWIiOiAiYW5"
        + "uYSIsICJhdWQiOiAibXF0dCIsICJpYXQiOiAxNzk5OTk5OTkwLCAiZXhwIjogMTgwMDAwMzYwMH0.fBlba0HgGZ3OVThRdOZkJti"
        + "wxBTo5XFeJnfPaPc1c3bM4AEuZeVrgxpN1-0j1EBtZf-Ofcq-rhcogtzgOxmopADswkBH0f49xpULmRZG0gUap5hrpkTGJQfH7T8"
        + "mrHuzV5dxMppXnw7QezWfUKmib9YWSCqZun1AFERvCbVDHO9kO3sk-3iqtc0XFfpry2e38A189AwhylC3QcQOBhE1kPfZAuRoGCG"
        + "bzdaUobbIVb1_0ObJ-ZQHIls4SER6bdrlEzG5kq6z3fkTqY0-l1PNduG6QgrQbjKEjR-T8N5DT8o1PCrbH_5tcwFPugv-Dt703Oi"
        + "9LzDh-Jvi3dgA3p5mKw"
    /// RS256's signature under PS256.
    static let plainAsPSS =
        "eyJhbGciOiAiUFMyNTYiLCAia2lkIjogInJzYSJ9.eyJpc3MiOiAiaHR0cHM6Ly9pc3N1ZXIuZXhhbXBsZSIsICJzdWIiOiAiYW5"
        + "uYSIsICJhdWQiOiAibXF0dCIsICJpYXQiOiAxNzk5OTk5OTkwLCAiZXhwIjogMTgwMDAwMzYwMH0.WBKDI1DDf2e517PisSblIY5"
        + "6sVE-ll_d3YMMcTJ937wJF_bNTilaxPyAj-fCmUdSorDuvuNGgOwIdFWn4LRajy94wvQvLxGG6rTETZArZeu7-yHMeUU3NB-ZxwL"
        + "cl4hb3V5j97PdZm9iBtyNIz_xGlWnbewAJkbrbB69dRD9H--vzxjAX4HWUKLq6GJl1hJ0t3sTXL3tJTsw5k3QADEd37WlwR5KDCt"
        + "ki-FhIsQQt84KNApm5Jqk7cUit_JIzURg0ETdPQ3lm2tsJmUH2HYv-f2rrfukDt_P2ydcipRaaNTYtz1XPVDem8qAQjipo_2W9ml"
        + "sPYhnZXdIMK21qXdC_g"
    /// PS256's signature under RS256.
    static let pssAsPlain =
        "eyJhbGciOiAiUlMyNTYiLCAia2lkIjogInJzYSJ9.eyJpc3MiOiAiaHR0cHM6Ly9pc3N1ZXIuZXhhbXBsZSIsICJzdWIiOiAiYW5"
        + "uYSIsICJhdWQiOiAibXF0dCIsICJpYXQiOiAxNzk5OTk5OTkwLCAiZXhwIjogMTgwMDAwMzYwMH0.XAf7r3wRmNMv12xJHTExdtv"
        + "bXAtFQAyQDUE6CAWAWRQYlpkLQ02yp536NtC-2RhyXV5a6RJqMiYGPB7W76VHbYADgrZbvH1pxpXiIQK7-mnDEo6cc47OoHWsvwm"
        + "rRwb4kVCnSGA7QixBdK82JJJ8tQFb3dUVqVpNbOooJ1BsXxO01WN1Vs9mFSU8g4E8zNVc-80jzpaaeIBoQQPTu5ViA80yGSRzr2v"
        + "6OMOHOX55EqItTKShC7cr1qGgs8-oEE-cWB8UEt8MlagffOW_vqk5ZZdL8UlrxkHRcvTsQwGZKBbfgyE3wANkLuuRtqucvg92-Z1"
        + "Mr7DnQGYkUq0Mj4-i9Q"
    /// RS512's signature under RS256.
    static let otherHash =
        "eyJhbGciOiAiUlMyNTYiLCAia2lkIjogInJzYSJ9.eyJpc3MiOiAiaHR0cHM6Ly9pc3N1ZXIuZXhhbXBsZSIsICJzdWIiOiAiYW5"
        + "uYSIsICJhdWQiOiAibXF0dCIsICJpYXQiOiAxNzk5OTk5OTkwLCAiZXhwIjogMTgwMDAwMzYwMH0.YmC2JbR76DWeUk5NyS1fDP7"
        + "W73-__Ti64CXasD-65bl6JR8U9PLFr7l126lOOGdBetSQo8dA6LHfuBRezoT8_53knlEWCjOVzaFXtxdZo7i48USuG5KCpjjXidJ"
        + "xYAJuBcbMHM3AIrjzg3FPgYNy6-lPwzlSEweIM6RD4mqvEjrMcMMlZH-mxA5OeON89CgV__A8xjvyuiFb1BMYS2SGPvTYerg_F-7"
        + "G-j5U8AVkMkt79iwZLe_sSR_10kwuo5Nheughwo4pCfvbASvdwzOM1NpV1pxBAi5EO-Qwwef4Acxf5Q8xuwm_LOSE8sbxjRe0eui"
        + "XAf6efRxg6zGoWZPBOg"
    /// ES256's signature as DER has it.
    static let derSignature =
        "eyJhbGciOiAiRVMyNTYiLCAia2lkIjogInAyNTYifQ.eyJpc3MiOiAiaHR0cHM6Ly9pc3N1ZXIuZXhhbXBsZSIsICJzdWIiOiAiY"
        + "W5uYSIsICJhdWQiOiAibXF0dCIsICJpYXQiOiAxNzk5OTk5OTkwLCAiZXhwIjogMTgwMDAwMzYwMH0.MEQCIDKQS2rhdO6ZPg6cU"
        + "gFnhsB5P4mj85rZeEFzVzTtPcmtAiA77Md8jM0oTundOIdKuBEm5Fm3RLpDiDfbT2xC-OWm4Q"
    /// Signed with a key that its own header brings.
    static let embeddedKey =
        "eyJhbGciOiAiRVMyNTYiLCAiandrIjogeyJjcnYiOiAiUC0yNTYiLCAieCI6ICJpeUwzcG5XUGVXM21ISDhpNHRBdXlYVE5UeDE0"
        + "QTFFaHV5Q2s5ZTVvNkRNIiwgInkiOiAiT0lJZjVuUFNsTTlONFJJdHZvZ0xJUXJuRUtadUw4QTBHWHloeGpaVFFhQSIsICJrdHki"
        + "OiAiRUMifSwgImprdSI6ICJodHRwczovL2F0dGFja2VyLmV4YW1wbGUifQ.eyJpc3MiOiAiaHR0cHM6Ly9pc3N1ZXIuZXhhbXBsZ"
        + "SIsICJzdWIiOiAiYW5uYSIsICJhdWQiOiAibXF0dCIsICJpYXQiOiAxNzk5OTk5OTkwLCAiZXhwIjogMTgwMDAwMzYwMH0.vBIx_"
        + "aB6gaUtlFPrOpW7tKKeaRZRJPBxrvvVwljpYz_MyrbebhRsgGcNHTVHLPn23LMCZjl_rp0T5Wwk0xoXdg"
}
